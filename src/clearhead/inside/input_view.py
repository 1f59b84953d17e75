"""The input page: the tokens of a text, and the embeddings of token, position and segment with their sum."""

# T tokens · E embedding width · D width

from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.inside.page import View, check_length, rounded
from clearhead.inside.trace import Traceable, encoded
from clearhead.nn.embeddings import FactorisedEmbeddings, inner_of
from clearhead.nn.hooks import evaluating
from clearhead.text import Encoding
from clearhead.text.encoding import CAPITALS

SCRIPTS = ("shared/heatmap.js", "main.js")
LIMIT = 512  # tokens; beyond them the page is a megabyte and more


def summed_input(model: Traceable, text: str, pair: str | None = None, *, features: int = 64) -> View:
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
        if hasattr(inner, "norm"):
            parts["normalised"] = inner.norm(total)
        if isinstance(embeddings, FactorisedEmbeddings):
            parts["projected"] = embeddings.project(parts["normalised"])
    return {name: part.float().cpu() for name, part in parts.items()}


def position_vectors(embeddings: Any, length: int) -> Tensor:
    """The vectors of the first positions, learned or fixed: (T, E)."""
    # RoBERTa keeps the first rows of its table for padding
    places = torch.arange(length, device=embeddings.token.weight.device) + getattr(embeddings, "first_position", 0)
    found: Tensor = embeddings.position(places)
    return found
