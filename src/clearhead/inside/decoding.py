"""Word by word: at each step the candidates and their probabilities, where the model looked, and the tree of beams."""

# R rows (beginnings) of a step · L layers · H heads · K head width · S tokens looked at

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.decoding.config import GenerationConfig
from clearhead.decoding.decoder import Output, Recorder, Step
from clearhead.errors import BadInput, require
from clearhead.inside.page import View, check_length, rounded
from clearhead.nn.alignment import AttentionContext
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.heads import Network
from clearhead.nn.hooks import Call, record
from clearhead.pipelines.generation import Generator
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer


@dataclass(frozen=True)
class Watched:
    """One text as it was written: what was read, every step of every beginning, and how it ended, the best first."""

    read: list[int]
    steps: list[Step]
    attention: list[Tensor]  # of each step (L, S), the mean of each layer's heads; empty where there is none to see
    outputs: list[Output]


def watch(writer: Generator, text: str, *, longest: int, beams: int, top: int) -> Watched:
    """Write one text, greedily or by beams, and keep what can be seen."""
    (read,) = writer.ids([text])
    # what goes on from a beginning is among its best 2 × beams continuations
    recorder = Recorder(top=max(top, 2 * beams))
    parts = looking_parts(writer)
    with record(*parts) as calls:
        (outputs,) = writer.write([read], [longest], GenerationConfig(beams=beams, best=beams), recorder=recorder)
    attention = [] if not parts else _by_step(recorder.steps, calls, len(parts))
    return Watched(read, recorder.steps, attention, outputs)


def looking_parts(writer: Generator) -> list[nn.Module]:
    """What to watch: cross-attention to the source, a decoder's look back, or a recurrent model's alignment."""
    module: Any = writer.module
    if isinstance(module, Network):
        body: Any = module.encoder
        if writer.sourced:
            return [block.cross.attend for block in body.decoder_blocks]
        return [block.attention.attend for block in body.blocks]
    context = getattr(module, "context", None)
    return [context.align] if isinstance(context, AttentionContext) else []


def _by_step(steps: list[Step], calls: list[Call], layers: int) -> list[Tensor]:
    """One (L, S) for each recorded step: every round of all rows has one call of each layer."""
    found: list[Tensor] = []
    rounds = [len(list(group)) for _, group in groupby(steps, key=lambda step: step.number)]
    for number, rows in enumerate(rounds):
        some = calls[number * layers : (number + 1) * layers]
        found += torch.stack([_weights(call, rows) for call in some], 1).float().cpu().unbind()
    return found


def _weights(call: Call, rows: int) -> Tensor:
    """The weights (R, S) of one call, the mean of its heads."""
    if isinstance(call.output, Tensor) and len(call.inputs) == 2:  # an alignment gives its weights: (R, 1, S)
        return call.output[:, 0]
    q, k = call.inputs[:2]
    if q.dim() == 3:  # a prompt, packed: its last token decides
        q, k = q[-1:].unsqueeze(0), k.unsqueeze(0)
    q = q.flatten(0, 1).unsqueeze(2)  # (R, H, 1, K)
    k = k.transpose(1, 2).repeat_interleave(rows // k.shape[0], 0)  # (R, H, S, K)
    return scaled_dot_product(q, k, k)[1].mean(1)[:, 0]


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
    return View.of("decoding", "Word by word", SCRIPTS, data)


def _data(writer: Generator, seen: Watched, top: int) -> dict[str, Any]:
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
