"""Two pages of what a model reads: a text as the sum of its embeddings, and ways to write a position as a vector."""

# T tokens or positions · E embedding width · D width

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from clearhead.errors import BadInput, WrongTask, keywords, require
from clearhead.inside.attention_view import GRAMMAR
from clearhead.inside.page import View, check_length, cosines, rounded
from clearhead.inside.trace import encoded
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.embeddings import FactorisedEmbeddings, inner_of
from clearhead.nn.hooks import evaluating
from clearhead.nn.layout import Packed
from clearhead.nn.positions import Rotary, sinusoidal_interleaved, sinusoidal_split
from clearhead.pipelines.model import Model
from clearhead.text import Encoding
from clearhead.text.encoding import CAPITALS

SCRIPTS = ("shared/heatmap.js", "main.js")
LIMIT = 512  # tokens; beyond them the page is a megabyte and more
MAX_POSITIONS = 256  # a table of similarities grows with their square
PAIRS = "pair of features"


@keywords
def summed_input(model: Model, text: str, pair: str | None = None, *, features: int = 64) -> View:
    """Show the pieces of a text and the sum that the first layer gets; of each vector the first `features`."""
    require(features > 0, f"features={features} cannot be shown; choose 1 or more", BadInput)
    encoding = encoded(model, text, pair)
    check_length(len(encoding), min(LIMIT, model.encoder.max_length))
    vectors = embedding_parts(model.encoder.embeddings, encoding.ids, encoding.segments)
    texts = [text] if pair is None else [text, pair]
    data = {
        "texts": texts,
        "tokens": encoding.tokens,
        "ids": encoding.ids,
        "words": [_characters(texts, encoding, position) for position in range(len(encoding))],
        "positions": [position for _, position, _ in encoding.rows()],
        "segments": [segment for _, _, segment in encoding.rows()],
        **({"capitals": [CAPITALS[kind] for kind in encoding.segments]} if "capital" in vectors else {}),
        "width": next(iter(vectors.values())).shape[-1],
        "vectors": {name: rounded(part[:, :features], 3) for name, part in vectors.items()},
    }
    return View.of("input", "Input", SCRIPTS, data)


def _characters(texts: list[str], encoding: Encoding, position: int) -> str:
    """The characters a token stands for; none for a special token."""
    part, span = encoding.part_of(position), encoding.offsets[position]
    return "" if part is None or span is None else texts[part][slice(*span)]


def embedding_parts(embeddings: Any, ids: list[int], segments: list[int]) -> dict[str, Tensor]:
    """The summands token, position, segment, capital, then the sum, normalised, projected, as far as there are: (T, …).

    With rotary or relative positions there may be the token alone, so no sum; the attention brings the positions in.
    """
    inner = inner_of(embeddings)
    device = inner.token.weight.device
    row = torch.tensor(ids, device=device)
    with torch.no_grad(), evaluating(embeddings):
        parts = {"token": inner.token(row) * getattr(inner, "scale", 1.0)}
        if hasattr(inner, "position"):
            parts["position"] = position_vectors(inner, len(ids))
        for name in ("segment", "capital"):
            if (table := getattr(inner, name, None)) is not None:
                parts[name] = table(torch.tensor(segments, device=device))
        total = torch.stack(list(parts.values())).sum(0)
        if len(parts) > 1:
            parts["sum"] = total
        if getattr(inner, "norm", None) is not None:
            parts["normalised"] = inner.norm(total)
        if isinstance(embeddings, FactorisedEmbeddings):
            parts["projected"] = embeddings.project(parts["normalised"])
    return {name: part.float().cpu() for name, part in parts.items()}


@keywords
def position_tables(model: Model | None = None, *, length: int = 64, width: int = 64, text: str | None = None) -> View:
    """Show ways to write a position as a vector, and how alike the positions are; with a model, its own too.

    With a text as well, two of its words change places, and it is seen what that does with and without positions.
    """
    fits = 1 < length <= MAX_POSITIONS
    require(fits, f"length={length} positions cannot be shown; choose 2 to {MAX_POSITIONS}", BadInput)
    require(width > 0 and width % 2 == 0, f"width={width} cannot be shown; choose an even number of features", BadInput)
    own = [] if model is None else [_own(model.encoder, length, width)]
    interleaved = "Vaswani et al. 2017: sine and cosine of each frequency side by side."
    split = "All sines, then all cosines; frequencies from 1 down to 1/10000."
    tables = [
        *own,
        _table("sinusoidal, interleaved", interleaved, sinusoidal_interleaved(length, width)),
        _table("sinusoidal, split", split, sinusoidal_split(length, width)),
    ]
    if not own or own[0]["features"] != PAIRS:  # whoever sees the model's own rotation needs no second one
        tables.append(_rotary("rotary", Rotary(width, 10000.0, length), length))
    require(text is None or model is not None, "words change places in a model; give one with the text", BadInput)
    swapped = None if model is None or text is None else swap_words(model, text)
    data = {"length": length, "tables": tables, "swapped": swapped}
    return View.of("positions", "Positions", ("shared/svg.js", "shared/heatmap.js", "curves.js", "main.js"), data)


def swap_words(model: Model, text: str) -> dict[str, Any]:
    """The first and the last word, but for those of grammar, change places: how alike does each last vector stay?

    With positions, and without: then the model computes with a table of zeros, or turns nothing, and a word does not
    know its place.
    """
    encoding = encoded(model, text)
    check_length(len(encoding), min(LIMIT, model.encoder.max_length))
    places = [place for place, span in enumerate(encoding.offsets) if span is not None]
    require(len(places) > 1, "a text of one token has no two words to swap; write more", BadInput)
    names = {place: encoding.tokens[place].lstrip("Ġ▁").casefold() for place in places}
    telling = [place for place, name in names.items() if name.isalpha() and name not in GRAMMAR.split()]
    swapped = telling if len(telling) > 1 else places
    first, last = swapped[0], swapped[-1]
    order = list(range(len(encoding)))
    order[first], order[last] = last, first
    encoder: Any = model.encoder
    named = dict(_placing(encoder))
    told = (
        "this model knows distances, not positions, and cannot do without; choose one with learned or rotary positions"
    )
    require(bool(named) and not isinstance(encoder, EncoderDecoder), told, WrongTask)
    nowhere = {
        name: torch.ones_like(value) if name.endswith("cos") else torch.zeros_like(value)
        for name, value in named.items()
    }
    ids, segments = torch.tensor(encoding.ids), torch.tensor(encoding.segments)
    layout = Packed.of([len(encoding)], model.device)

    def states(which: list[int], changed: dict[str, Tensor]) -> Tensor:
        given = (ids[which].to(model.device), layout, segments[which].to(model.device))
        with torch.no_grad(), evaluating(encoder):
            # blocks may share a module that turns: exchanged under each of its names, it would not be put back
            return torch.func.functional_call(encoder, changed, given, tie_weights=False).float().cpu()

    straight = list(range(len(encoding)))
    alike = {}
    for name, changed in (("with", {}), ("without", nowhere)):
        before, after = states(straight, changed), states(order, changed)
        # a word is compared with itself, where it stands now
        alike[name] = rounded(cosine_similarity(before, after[order], dim=-1), 3)
    return {"tokens": encoding.tokens, "places": [first, last], "order": order, "alike": alike}


def _placing(encoder: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tables that say where a token stands, each module's under one name."""
    for path, module in encoder.named_modules():
        for name, value in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            full = f"{path}.{name}"
            if full.endswith(("position.weight", "rotary.cos", "rotary.sin")):
                yield full, value


def _own(encoder: Any, length: int, width: int) -> dict[str, Any]:
    inner = inner_of(encoder.embeddings)
    shown = min(length, encoder.max_length)
    if hasattr(inner, "position"):
        with torch.no_grad():
            vectors = position_vectors(inner, shown).float().cpu()
        about = f"The table of this model: {vectors.shape[1]} features, of which the first {width} are shown."
        kind = "learned" if isinstance(inner.position, nn.Embedding) else "fixed"
        return _table(f"{kind}, of this model", about, vectors, width)
    blocks = getattr(encoder, "blocks", None)  # an encoder–decoder has other names for its own, and none is rotary
    rotary = None if blocks is None else getattr(blocks[0].attention, "rotary", None)
    if rotary is None:
        raise WrongTask("this model has no vectors of positions to show; leave the model out")
    return _rotary("rotary, of this model", rotary, shown)


def position_vectors(embeddings: Any, length: int) -> Tensor:
    """The vectors of the first positions, learned or fixed: (T, E)."""
    # RoBERTa keeps the first rows of its table for padding
    places = torch.arange(length, device=embeddings.token.weight.device) + getattr(embeddings, "first_position", 0)
    found: Tensor = embeddings.position(places)
    return found


def _table(name: str, about: str, vectors: Tensor, width: int | None = None) -> dict[str, Any]:
    """The first `width` features; the similarity is the cosine of whole vectors."""
    return _shown(name, about, "feature", vectors[:, :width], cosines(vectors))


def _rotary(name: str, rotary: Rotary, length: int) -> dict[str, Any]:
    """Cosines of the angles by which each pair of features is rotated."""
    half = rotary.cos.shape[-1] // 2
    cos, sin = rotary.cos[:length, :half].cpu(), rotary.sin[:length, half:].cpu()
    about = (
        "Su et al. 2021: nothing is added; queries and keys are turned by these angles (their cosines are shown). "
        "The similarity of two positions depends on their distance alone."
    )
    # a vector of ones turned to i, times the same turned to j, is the mean of cos((i - j) · frequency)
    return _shown(name, about, PAIRS, cos, (cos @ cos.mT + sin @ sin.mT) / half)


def _shown(name: str, about: str, features: str, vectors: Tensor, similarity: Tensor) -> dict[str, Any]:
    return {
        "name": name,
        "about": about,
        "features": features,
        "vectors": rounded(vectors, 3),
        "similarity": rounded(similarity, 3),
    }
