"""The positions page: both sinusoidal layouts, rotary positions, and the table a model has learnt."""

# T positions · D width

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, WrongTask, require
from clearhead.inside.input_view import position_vectors
from clearhead.inside.page import View, cosines, rounded
from clearhead.inside.trace import Traceable
from clearhead.nn.embeddings import inner_of
from clearhead.nn.positions import Rotary, sinusoidal_interleaved, sinusoidal_split

SCRIPTS = ("shared/heatmap.js", "main.js")
LIMIT = 256  # positions; a table of similarities grows with their square
PAIRS = "pair of features"


def position_tables(model: Traceable | None = None, *, length: int = 64, width: int = 64) -> View:
    """Show ways to write a position as a vector, and how alike the positions are; with a model, its own too."""
    require(1 < length <= LIMIT, f"length={length} positions cannot be shown; choose 2 to {LIMIT}", BadInput)
    require(width > 0 and width % 2 == 0, f"width={width} cannot be shown; choose an even number of features", BadInput)
    own = [] if model is None else [_own(model.encoder, length, width)]
    # whoever sees the model's own rotation needs no second one
    turned = [] if own and own[0]["features"] == PAIRS else [_rotary("rotary", Rotary(width, 10000.0, length), length)]
    tables = [
        *own,
        _table(
            "sinusoidal, interleaved",
            "Vaswani et al. 2017: sine and cosine of each frequency side by side.",
            sinusoidal_interleaved(length, width),
        ),
        _table(
            "sinusoidal, split",
            "All sines, then all cosines; frequencies from 1 down to 1/10000.",
            sinusoidal_split(length, width),
        ),
        *turned,
    ]
    data = {"length": length, "tables": tables}
    return View.of("positions", "Positions", SCRIPTS, data)


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
