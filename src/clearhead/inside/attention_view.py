"""The attention page: the weights of every layer and head; and one head, one token at a time."""

# T tokens · H heads · S side of a small picture
# T tokens · K head width

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.inside.page import View, check_length, page, rounded

if TYPE_CHECKING:
    from clearhead.inside.trace import Layer

# A weight is stored as whole thousandths and shown with three decimals, so the page shows exactly what is stored.
# 12 × 12 heads of 512 tokens: 14 MB, against 32 MB with four decimals and 7 MB with one byte, which shows only two.
SCALE = 1000
SMALL = 32
LIMIT = 1024  # tokens; the page grows with their square, to some 50 MB here
SCRIPTS = ("data.js", "state.js", "lines.js", "matrix.js", "details.js", "overview.js", "finder.js", "main.js")


def heads_page(
    tokens: Sequence[str], sides: Sequence[int], layers: "Sequence[Layer]", start: tuple[int, int | None]
) -> str:
    """Build the page; it opens at the layer and head of `start`, None being the average of all heads."""
    check_length(len(tokens), LIMIT)
    chunks, small = {}, []
    for layer in layers:
        planes = _planes(layer)
        chunks[f"layer-{layer.index}"] = pack_weights(planes)
        small.append(_small(planes))
    chunks["small"] = zlib.compress(torch.stack(small).numpy().tobytes())
    facts = {
        "tokens": list(tokens),
        "segments": list(sides),
        "layers": len(layers),
        "heads": layers[0].heads,
        "scale": SCALE,
        "small": small[0].shape[-1],
        "layer": start[0],
        "head": start[1],
    }
    return page("heads", "Attention", SCRIPTS, facts, chunks)


def pack_weights(weights: Tensor) -> bytes:
    """Weights (…) in 0 … 1 as thousandths: all low bytes, then all high bytes, deflated. Within 0.0005 of the trace."""
    # in double precision the product is exact, so this rounds as writing the weight with three decimals does
    counts = (weights.double() * SCALE).round().to(torch.int16).flatten()
    halves = torch.stack([counts & 0xFF, counts >> 8]).to(torch.uint8)
    # long runs of equal bytes are all there is to find: as small as a full search, six times as fast
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    return deflate.compress(halves.numpy().tobytes()) + deflate.flush()


def _planes(layer: "Layer") -> Tensor:
    """Each head's weights, then their average: (H + 1, T, T)."""
    # one head after the other, since those of a long text are large and need not be kept
    planes = torch.stack([layer.attention(head) for head in range(layer.heads)])
    return torch.cat([planes, planes.mean(0, keepdim=True)])


def _small(planes: Tensor) -> Tensor:
    """Shrink to (H + 1, S, S) bytes: the largest weight of each patch, lifted so that small ones can be seen."""
    side = min(SMALL, planes.shape[-1])
    return (F.adaptive_max_pool2d(planes, side).sqrt() * 255).round().to(torch.uint8)


STEP_SCRIPTS = ("shared/heatmap.js", "main.js")
STEP_LIMIT = 128  # tokens; the page holds three tables of their squares


def step_view(tokens: Sequence[str], layer: "Layer", head: int, token: int) -> View:
    """Show how one head computes; the page opens at this token."""
    layer.check_head(head)
    last = len(tokens) - 1
    require(0 <= token <= last, f"token {token} does not exist, the text has tokens 0 to {last}", BadInput)
    check_length(len(tokens), STEP_LIMIT)
    q, k, v = layer.q[head], layer.k[head], layer.v[head]
    weights = layer.attention(head)
    data: dict[str, Any] = {
        "tokens": list(tokens),
        "layer": layer.index,
        "head": head,
        "token": token,
        "turned": layer.turned,
        "q": rounded(q, 3),
        "k": rounded(k, 3),
        "v": rounded(v, 3),
        "scores": rounded(q @ k.mT, 3),
        "scaled": rounded(q @ k.mT * q.shape[-1] ** -0.5, 3),
        "weights": rounded(weights),
        "output": rounded(weights @ v, 3),
    }
    return View("step", page("step", "One token, step by step", STEP_SCRIPTS, data), data)
