"""Two pages of a trace: the attention weights of every layer and head, and one head step by step."""

# T tokens · H heads · K head width · S side of a small picture

import zlib
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.inside.page import View, check_length, page, rounded

if TYPE_CHECKING:
    from clearhead.inside.trace import Layer, Trace

# A weight is stored as whole thousandths and shown with three decimals, so the page shows exactly what is stored.
# 12 × 12 heads of 512 tokens: 14 MB, against 32 MB with four decimals and 7 MB with one byte, which shows only two.
SCALE = 1000
SMALL = 32
LIMIT = 1024  # tokens; the page grows with their square, to some 50 MB here
SCRIPTS = ("data.js", "state.js", "lines.js", "matrix.js", "details.js", "overview.js", "finder.js", "main.js")
STEP_SCRIPTS = ("shared/heatmap.js", "main.js")
STEP_LIMIT = 128  # tokens; the page holds three tables of their squares


def heads_view(trace: "Trace", layer: int, head: int | None) -> View:
    """Show every layer and head; the page opens at this layer and head, None being the average of all heads."""
    check_length(len(trace.tokens), LIMIT)
    chunks, small, side = {}, [], min(SMALL, len(trace.tokens))
    for one in trace.layers:
        # one head after the other, since those of a long text are large and need not be kept
        heads = torch.stack([one.attention(number) for number in range(one.heads)])
        planes = torch.cat([heads, heads.mean(0, keepdim=True)])  # (H + 1, T, T)
        chunks[f"layer-{one.index}"] = pack_weights(planes)
        # (H + 1, S, S) bytes: the largest weight of each patch, lifted so that small ones can be seen
        small.append((F.adaptive_max_pool2d(planes, side).sqrt() * 255).round().to(torch.uint8))
    chunks["small"] = zlib.compress(torch.stack(small).numpy().tobytes())
    data = {"tokens": trace.tokens, "segments": trace.sides, "layers": len(small), "heads": trace.layers[0].heads}
    facts = data | {"scale": SCALE, "small": side, "layer": layer, "head": head}
    return View("attention", page("attention", "Attention", SCRIPTS, facts, chunks), data)


def pack_weights(weights: Tensor) -> bytes:
    """Weights (…) in 0 … 1 as thousandths: all low bytes, then all high bytes, deflated. Within 0.0005 of the trace."""
    # in double precision the product is exact, so this rounds as writing the weight with three decimals does
    counts = (weights.double() * SCALE).round().to(torch.int16).flatten()
    halves = torch.stack([counts & 0xFF, counts >> 8]).to(torch.uint8)
    # long runs of equal bytes are all there is to find: as small as a full search, six times as fast
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    return deflate.compress(halves.numpy().tobytes()) + deflate.flush()


def step_view(trace: "Trace", layer: "Layer", head: int, token: int) -> View:
    """Show how one head computes: query, keys, values, scores, weights; the page opens at this token."""
    check_length(len(trace.tokens), STEP_LIMIT)
    weights = layer.attention(head)
    q, k, v = layer.q[head], layer.k[head], layer.v[head]
    data = {
        "tokens": trace.tokens,
        "layer": layer.index,
        "head": head,
        "token": token,
        "turned": layer.rotary,
        "far": layer.bias is not None,
        "q": rounded(q, 3),
        "k": rounded(k, 3),
        "v": rounded(v, 3),
        "scores": rounded(q @ k.mT, 3),
        "scaled": rounded(layer.scores[head], 3),
        "weights": rounded(weights),
        "output": rounded(weights @ v, 3),
    }
    return View.of("step", "One token, step by step", STEP_SCRIPTS, data)
