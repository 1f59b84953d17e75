"""One Transformer layer: attention between tokens, then a feed-forward for each token, both with a residual."""

# D width · F feed-forward width; … is (N) packed or (B, T) padded

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadConfig
from clearhead.nn.fused import can_fuse, gated, linear, linear_add, normalised
from clearhead.nn.layout import Layout

Activation = Callable[[Tensor], Tensor]

# by the names that published configurations use
ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": F.tanh,
}


def activation(name: str) -> Activation:
    """Look an activation up by its published name."""
    if name not in ACTIVATIONS:
        raise BadConfig(f"unknown activation {name!r}; known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class FeedForward(nn.Module):
    """Widen, bend, narrow: (…, D) -> (…, D) through F."""

    def __init__(self, width: int, inner: int, *, act: str, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias=bias)
        self.act = activation(act)
        self.down = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Work on each token by itself."""
        return linear(self.down, self.inner(x))

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x), the sum inside the last product."""
        return linear_add(residual, self.down, self.inner(x))

    def inner(self, x: Tensor) -> Tensor:
        """What comes into the last product: (…, D) -> (…, F)."""
        return linear(self.up, x, "gelu") if self.act is F.gelu else self.act(linear(self.up, x))


class GatedFeedForward(nn.Module):
    """Shazeer 2020 (GeGLU with act="gelu"): one half of the widened token gates the other."""

    def __init__(self, width: int, inner: int, *, act: str, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * inner, bias=bias)
        self.act = activation(act)
        self.down = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Work on each token by itself."""
        return linear(self.down, self.inner(x))

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x), the sum inside the last product."""
        return linear_add(residual, self.down, self.inner(x))

    def inner(self, x: Tensor) -> Tensor:
        """What comes into the last product: (…, D) -> (…, F)."""
        if self.act is F.gelu:
            return gated(self.up, x)
        value, gate = linear(self.up, x).chunk(2, -1)
        return self.act(value) * gate


class PostNormBlock(nn.Module):
    """The 2017 block: normalise after each residual sum. Made for BERT and its first relatives."""

    def __init__(self, attention: Any, feedforward: Any, norm: Callable[[], nn.Module], dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.norm_1 = norm()
        self.feedforward = feedforward
        self.norm_2 = norm()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (…, D)."""
        if can_fuse(self, x, layout):
            x = normalised(self.norm_1, self.attention.add_to(x, x, layout))
            return normalised(self.norm_2, self.feedforward.add_to(x, x))
        x = self.norm_1(x + self.dropout(self.attention(x, layout)))
        return self.norm_2(x + self.dropout(self.feedforward(x)))


class PreNormBlock(nn.Module):
    """The modern block: normalise what goes into each part and leave the residual stream untouched.

    `first` is the stack's first block, whose input has just been normalised by the embeddings.
    """

    def __init__(
        self,
        attention: Any,
        feedforward: Any,
        norm: Callable[[], nn.Module],
        dropout: float,
        *,
        first: bool = False,
    ) -> None:
        super().__init__()
        self.norm_1 = nn.Identity() if first else norm()
        self.attention = attention
        self.norm_2 = norm()
        self.feedforward = feedforward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, *given: Any) -> Tensor:
        """(…, D) -> (…, D); what else is `given` goes to the attention, such as a decoder's past."""
        if not given and can_fuse(self, x, layout):
            x = self.attention.add_to(x, normalised(self.norm_1, x), layout)
            return self.feedforward.add_to(x, normalised(self.norm_2, x))
        x = x + self.dropout(self.attention(self.norm_1(x), layout, *given))
        return x + self.dropout(self.feedforward(self.norm_2(x)))
