"""Word by word: at each step the candidates and their probabilities, where the model looked, and the tree of beams."""

from typing import Any

from clearhead.errors import BadInput, require
from clearhead.inside.numbers import rounded
from clearhead.inside.page import check_length, page
from clearhead.inside.view import View
from clearhead.inside.writing import Watched, watch
from clearhead.pipelines.model import Model
from clearhead.pipelines.write import Writer
from clearhead.text import Tokenizer

SCRIPTS = ("shared/svg.js", "shared/heatmap.js", "tree.js", "main.js")
LIMIT = 128  # tokens read; the page holds what every step saw of them


def decoding(model: Model, text: str, *, beams: int = 1, longest: int = 32, top: int = 5) -> View:
    """Show how a model writes after a prompt, or beside a source: the steps of the best text, and all that was tried.

    `beams` beginnings are kept at each step, one is greedy; at most `longest` tokens are written, and the `top`
    candidates of each step are shown.
    """
    require(1 <= beams <= 8, f"beams={beams} cannot be drawn; choose 1 to 8", BadInput)
    require(1 <= longest <= LIMIT, f"longest={longest} tokens cannot be shown; choose 1 to {LIMIT}", BadInput)
    require(top > 0, f"top={top} candidates cannot be shown; choose 1 or more", BadInput)
    writer = model.writer
    check_length(len(writer.ids([text])[0]), LIMIT)
    data = _data(writer, watch(writer, text, longest=longest, beams=beams, top=top), top)
    return View("decoding", page("decoding", "Word by word", SCRIPTS, data), data)


def _data(writer: Writer, seen: Watched, top: int) -> dict[str, Any]:
    names = writer.tokenizer
    places = {tuple(step.written): number for number, step in enumerate(seen.steps)}
    nodes = []
    for number, step in enumerate(seen.steps):
        parent = places.get(tuple(step.written[:-1])) if step.written else None
        nodes.append(
            {
                "parent": parent,
                "token": token_name(names, step.written[-1]) if step.written else None,
                "chance": None if parent is None else _chance(seen, parent, step.written[-1]),
                "written": names.decode(step.written),
                "candidates": [[token_name(names, token), round(share, 4)] for token, share in step.candidates[:top]],
                "chosen": [token_name(names, token) for token in step.chosen],
                "attention": rounded(seen.attention[number], 3) if seen.attention else [],
            }
        )
    best = seen.outputs[0].tokens
    prefixes = [tuple(best[:length]) for length in range(len(best) + 1)]
    return {
        "source": writer.sourced,
        "read": [token_name(names, token) for token in seen.read],
        "nodes": nodes,
        "path": [places[one] for one in prefixes if one in places],  # the limit cuts the last one off
        "beams": len(seen.outputs),
        "results": [
            {"text": names.decode(one.tokens), "score": round(one.score, 4), "ended": one.ended} for one in seen.outputs
        ],
    }


def _chance(seen: Watched, parent: int, token: int) -> float | None:
    return next((round(share, 4) for name, share in seen.steps[parent].candidates if name == token), None)


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as people read it: the vocabulary's own name, but the characters where that name spells bytes."""
    name, text = tokenizer.id_to_token(token) or f"id {token}", tokenizer.decode([token], special=True)
    mark = name[:1] if name[:1] in "Ġ▁" else ""
    return mark + text.strip() if text.strip() and "\ufffd" not in text and not name.startswith("##") else name
