"""Transformer blocks (attention, then a feed-forward, both with a residual sum) and the encoders made of them."""

# D width · F feed-forward width; … is (N) packed or (B, T) padded

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadConfig, check_config, check_heads
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.embeddings import check_length
from clearhead.nn.fused import (
    Map,
    Sum,
    bound,
    bound_add,
    bound_gated,
    bound_norm,
    can_fuse,
    captured,
    gated,
    linear,
    linear_add,
    normalised,
)
from clearhead.nn.layout import Layout, Padded

Activation = Callable[[Tensor], Tensor]
Norm = Callable[[], nn.Module]  # makes one

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
    """Linear, activation, linear, for each token by itself: (…, D) -> (…, D) through F."""

    _outputs = 1  # of the first product, each F wide

    def __init__(self, width: int, inner: int, *, act: str, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(width, self._outputs * inner, bias=bias)
        self.act = activation(act)
        self.down = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)."""
        return linear(self.down, self.inner(x))

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x), the sum inside the last product."""
        return linear_add(residual, self.down, self.inner(x))

    def inner(self, x: Tensor) -> Tensor:
        """The activations between the two products: (…, D) -> (…, F)."""
        return linear(self.up, x, "gelu") if self.act is F.gelu else self.act(linear(self.up, x))

    def capture(self) -> Sum:
        """`add_to` with the weights as they are now, for a single text."""
        inner, down = self._capture_inner(), bound_add(self.down)
        return lambda residual, x: down(residual, inner(x))

    def _capture_inner(self) -> Map:
        return bound(self.up, "gelu") if self.act is F.gelu else self.inner


class GatedFeedForward(FeedForward):
    """Shazeer 2020 (GeGLU with act="gelu"): one half of the widened token gates the other."""

    _outputs = 2

    def inner(self, x: Tensor) -> Tensor:
        """The activations between the two products: (…, D) -> (…, F)."""
        if self.act is F.gelu:
            return gated(self.up, x)
        value, gate = linear(self.up, x).chunk(2, -1)
        return self.act(value) * gate

    def _capture_inner(self) -> Map:
        return bound_gated(self.up) if self.act is F.gelu else self.inner


def _can_capture(block: Any) -> bool:
    """Whether both parts of a block can, and give the same without a mask for texts that are short enough."""
    attention, feedforward = block.attention, block.feedforward
    return hasattr(attention, "capture") and hasattr(feedforward, "capture") and attention.can_add_to(0)


class PostNormBlock(nn.Module):
    """The 2017 block, of BERT and its first relatives: a norm after each residual sum."""

    def __init__(self, attention: Any, feedforward: Any, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.norm_1 = norm()
        self.feedforward = feedforward
        self.norm_2 = norm()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, *given: Any) -> Tensor:
        """(…, D) -> (…, D); what else is `given` goes to the attention, such as a bias for each distance."""
        if not given and can_fuse(self, x, layout):
            x = normalised(self.norm_1, self.attention.add_to(x, x, layout))
            return normalised(self.norm_2, self.feedforward.add_to(x, x))
        x = self.norm_1(x + self.dropout(self.attention(x, layout, *given)))
        return self.norm_2(x + self.dropout(self.feedforward(x)))

    can_capture = _can_capture

    def capture(self) -> Map:
        """The block with its weights as they are now, for a single text: (N, D) -> (N, D)."""
        attend, norm_1 = self.attention.capture(), bound_norm(self.norm_1)
        feedforward, norm_2 = self.feedforward.capture(), bound_norm(self.norm_2)

        def forward(x: Tensor) -> Tensor:
            x = norm_1(attend(x, x))
            return norm_2(feedforward(x, x))

        return forward


class PreNormBlock(nn.Module):
    """The modern block: a norm before each part, and the residual stream left untouched.

    `first` is the stack's first block, whose input has just been normalised by the embeddings.
    """

    def __init__(self, attention: Any, feedforward: Any, norm: Norm, dropout: float, *, first: bool = False) -> None:
        super().__init__()
        self.norm_1 = nn.Identity() if first else norm()
        self.attention = attention
        self.norm_2 = norm()
        self.feedforward = feedforward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, *given: Any) -> Tensor:
        """(…, D) -> (…, D); what else is `given` goes to the attention, such as a decoder's cache."""
        if not given and can_fuse(self, x, layout):
            x = self.attention.add_to(x, normalised(self.norm_1, x), layout)
            return self.feedforward.add_to(x, normalised(self.norm_2, x))
        x = x + self.dropout(self.attention(self.norm_1(x), layout, *given))
        return x + self.dropout(self.feedforward(self.norm_2(x)))

    can_capture = _can_capture

    def capture(self) -> Map:
        """The block with its weights as they are now, for a single text: (N, D) -> (N, D)."""
        attend, norm_1 = self.attention.capture(), bound_norm(self.norm_1)
        feedforward, norm_2 = self.feedforward.capture(), bound_norm(self.norm_2)

        def forward(x: Tensor) -> Tensor:
            x = attend(x, norm_1(x))
            return feedforward(x, norm_2(x))

        return forward


class Encoder(nn.Module):
    """Ids to hidden states, in either layout: embeddings, then blocks. A model sets the three attributes."""

    config: Any
    embeddings: Any
    blocks: nn.ModuleList

    @property
    def width(self) -> int:
        """Width of a hidden state, D."""
        return self.config.hidden_size

    @property
    def max_length(self) -> int:
        """Longest sequence there are positions for."""
        return self.config.max_position_embeddings

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D). Without a layout, nothing is padding."""
        layout = layout or Padded.full(ids)
        check_length(layout.max_length, self.max_length)
        alone = captured(self, layout)
        if alone is not None and alone.embed is not None:
            x = alone.embed(ids, segments)
        else:
            x = self.embeddings(ids, layout.positions, segments)
        if alone is not None:
            for each in alone.blocks:
                x = each(x)
            return x
        for block in self.blocks:
            x = block(x, layout)
        return x


def sizes(layers: int, width: int, heads: int) -> dict[str, Any]:
    """The sizes of a preset by BERT's field names; the feed-forward is four times as wide as the model."""
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    return dict(zip(names, (layers, width, heads, 4 * width), strict=True))


def post_norm_blocks(config: Any, count: int) -> nn.ModuleList:
    """Make blocks of the sizes in a configuration with BERT's field names."""
    width, heads, rate = config.hidden_size, config.num_attention_heads, config.attention_probs_dropout_prob
    return nn.ModuleList(
        PostNormBlock(
            MultiHeadAttention(width, heads, dropout=rate),
            FeedForward(width, config.intermediate_size, act=config.hidden_act),
            norm=partial(nn.LayerNorm, width, eps=config.layer_norm_eps),
            dropout=config.hidden_dropout_prob,
        )
        for _ in range(count)
    )


def check_transformer(
    config: Any, *, act: str = "hidden_act", width: str = "hidden_size", heads: str = "num_attention_heads"
) -> None:
    """Check a configuration's numbers, its activation, and that heads fill the width; the names are the family's."""
    check_config(config)
    activation(getattr(config, act))
    check_heads(getattr(config, width), getattr(config, heads), (width, heads))
