"""Queries, keys and values on one page: by hand, with the slides' numbers, and in one head of a real pass."""

# T words · M width of x · H heads · K width of a head as drawn · D width of a model

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, tensor

from clearhead.errors import BadInput, require
from clearhead.inside.page import LIMIT, View, check_length, page, rounded
from clearhead.nn.attention import key_value, scaled_dot_product, self_attention

if TYPE_CHECKING:
    from clearhead.inside.trace import Layer, Trace

SCRIPTS = (
    "shared/matrix.js",
    "shared/heatmap.js",
    "algebra.js",
    "sections.js",
    "division.js",
    "head.js",
    "kept.js",
    "main.js",
)
FEATURES = 64  # of the vectors of the model's own width
WIDEST, KEYS = 512, 8  # of the vectors that show what the division is for


@dataclass(frozen=True, eq=False)
class Example:
    """Words x (T, M), the heads' matrices query, key and value (H, M, K), and output (H·K, M).

    `key_width` is the d_k of the division; where it is more than K, the features that are not drawn are 0.
    """

    words: tuple[str, ...]
    x: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    key_width: int

    def __post_init__(self) -> None:
        heads, width, drawn = self.query.shape if self.query.dim() == 3 else (0, 0, 0)
        shapes = [tuple(part.shape) for part in (self.x, self.query, self.key, self.value, self.output)]
        wanted = [(len(self.words), width), *[(heads, width, drawn)] * 3, (heads * drawn, width)]
        message = f"the shapes of x, query, key, value and output do not fit {len(self.words)} words: {shapes}"
        advice = "x is (T, M), query, key and value are (H, M, K), output is (H·K, M)"
        require(shapes == wanted and len(self.words) > 0, f"{message}; {advice}", BadInput)
        message = f"key_width={self.key_width} is less than the {drawn} features drawn"
        require(self.key_width >= drawn, message, BadInput)


# The slide gives the scores 112 and 96 and d_k = 64, and draws three features: the other 61 are 0 here.
THINKING_MACHINES = Example(
    words=("Thinking", "Machines"),
    x=tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]]),
    query=tensor([[[4.0, 4, 0], [8, 0, 0], [4, 0, 4], [0, 0, 8]], [[2.0, 0, 0], [0, 4, 0], [0, 4, 0], [0, 0, 4]]]),
    key=tensor([[[4.0, 4, 4], [4, 0, 4], [4, 4, 0], [4, 4, 0]], [[0.0, 4, 0], [2, 0, 4], [4, 0, 0], [0, 4, 0]]]),
    value=tensor([[[1.0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 0, 3]], [[0.0, 1, 0], [2, 0, 0], [0, 0, 1], [0, 1, 0]]]),
    output=tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]),
    key_width=64,
)
TITLE = "Queries, keys, values"
# Queries over ⟨man, woman, child⟩, keys boy and girl, values over ⟨child, female, male⟩.
MAPPING: dict[str, Any] = {
    "queries": ["man", "woman"],
    "keys": ["boy", "girl"],
    "features": ["man", "woman", "child"],
    "meanings": ["child", "female", "male"],
    "q": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    "k": [[0.7, 0.0, 0.5], [0.0, 0.7, 0.5]],
    "v": [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]],
}


def by_hand(example: Example = THINKING_MACHINES) -> View:
    """Show self-attention as a calculation with editable numbers, from the slides' or from your own.

    >>> by_hand().data["heads"][0]["weights"][0]
    [0.8808, 0.1192]
    """
    data = hand_data(example)
    return View("by-hand", page("qkv", TITLE, SCRIPTS, data | {"drawn": _normal()}), data)


def hand_data(example: Example) -> dict[str, Any]:
    """Every number of the calculation."""
    matrices = {"query": example.query, "key": example.key, "value": example.value}
    q, k, v = (example.x @ matrix for matrix in matrices.values())  # (H, T, K)
    rest = (0, example.key_width - q.shape[-1])
    z, weights = scaled_dot_product(F.pad(q, rest), F.pad(k, rest), v)
    scores = q @ k.mT
    heads = {"q": q, "k": k, "v": v, "scores": scores, "scaled": scores / example.key_width**0.5}
    heads = matrices | heads | {"weights": weights, "z": z}
    joined = z.transpose(0, 1).flatten(1)  # (T, H·K)
    plain = example.x @ example.x.mT
    asked, keys, values = (tensor(MAPPING[name]) for name in "qkv")
    return {
        "words": list(example.words),
        "x": rounded(example.x),
        "key_width": example.key_width,
        "heads": [{name: rounded(part[head]) for name, part in heads.items()} for head in range(len(q))],
        "output_matrix": rounded(example.output),
        "joined": rounded(joined),
        "output": rounded(joined @ example.output),
        "basic": {
            "scores": rounded(plain),
            "plain": rounded(plain @ example.x),
            "weights": rounded(plain.softmax(-1)),
            "z": rounded(self_attention(example.x)),
        },
        "mapping": MAPPING | {"scores": rounded(asked @ keys.mT), "output": rounded(key_value(asked, keys, values))},
    }


def _normal() -> dict[str, Any]:
    """A query and keys drawn from N(0, 1): the more features, the larger their products."""
    rng = torch.Generator().manual_seed(1)
    q, k = torch.randn(WIDEST, generator=rng), torch.randn(KEYS, WIDEST, generator=rng)
    return {"q": rounded(q, 2), "k": rounded(k, 2)}


def step_view(trace: "Trace", layer: "Layer", head: int, token: int) -> View:
    """Show how one head computes: query, keys, values, scores, weights; the page opens at this token."""
    check_length(len(trace.tokens), LIMIT)
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
        "width": layer.before.shape[-1],
        "causal": layer.causal,
        "x": rounded(layer.attention_input[:, :FEATURES], 3),
        "added": rounded(layer.contribution(head)[:, :FEATURES], 3),
    }
    facts = data | {"hand": hand_data(THINKING_MACHINES), "drawn": _normal()}
    return View("step", page("qkv", TITLE, SCRIPTS, facts), data)
