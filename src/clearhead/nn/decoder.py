"""The parts of a decoder: attention that looks back and remembers, attention to a source, and the blocks of both."""

# B batch · D width · H heads · K head width; … is (N) packed or (B, T) padded

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from clearhead.errors import check_heads
from clearhead.nn.attention import Attend
from clearhead.nn.cache import Cache, Keyed, Past
from clearhead.nn.fused import linear
from clearhead.nn.layout import Layout


class Source(Protocol):
    """The text that an encoder–decoder reads: ids (N,) or (B, S) and their layout, such as a `Batch`."""

    @property
    def ids(self) -> Tensor:
        """The token ids."""

    @property
    def layout(self) -> Layout:
        """Where the sequences lie."""


@dataclass(frozen=True)
class SourceStates:
    """What the encoder made of a source: hidden states (…, D)."""

    hidden: Tensor
    layout: Layout


@runtime_checkable
class EncoderDecoder(Protocol):
    """A body that reads a source beside its ids, where others turn ids alone into hidden states."""

    def encode(self, ids: Tensor, layout: Layout | None = None) -> SourceStates:
        """Read a source."""


class SelfAttention(nn.Module):
    """Attention of a text to itself, by default causal; it can remember its past and take a bias.

    `head_width` may differ from width / heads; `scaled=False` leaves out the division by √K, as T5 does.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        causal: bool = True,
        head_width: int | None = None,
        bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        inner = _inner(width, heads, head_width)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * inner, bias=bias)
        self.undo = 1.0 if scaled else (inner // heads) ** 0.5  # what `attend` divides by
        self.attend = Attend(dropout=dropout, causal=causal)
        self.output = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor, layout: Layout, past: Past | None = None, bias: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D); with a `past`, x is added to it and looks at all of it."""
        q, k, v = linear(self.qkv, x).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (…, H, K) each
        q = q if self.undo == 1.0 else q * self.undo
        keys = None
        if past is not None:
            k, v, keys = past.extend(k, v, layout)
        mixed: Tensor = linear(self.output, self.attend(q, k, v, layout, keys, bias).flatten(-2))
        return mixed


class CrossAttention(nn.Module):
    """Attention of a text to another one: queries here, keys and values there."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        head_width: int | None = None,
        bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        inner = _inner(width, heads, head_width)
        self.heads = heads
        self.query = nn.Linear(width, inner, bias=bias)
        self.key_value = nn.Linear(width, 2 * inner, bias=bias)
        self.undo = 1.0 if scaled else (inner // heads) ** 0.5  # what `attend` divides by
        self.attend = Attend(dropout=dropout)
        self.output = nn.Linear(inner, width, bias=bias)

    def read(self, source: SourceStates) -> Keyed:
        """Make keys and values of a source; once is enough for all steps."""
        k, v = linear(self.key_value, source.hidden).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return Keyed(k, v, source.layout)

    def forward(self, x: Tensor, layout: Layout, source: SourceStates | Past) -> Tensor:
        """(…, D) -> (…, D); a past knows the source that it was begun with."""
        seen = self.read(source) if isinstance(source, SourceStates) else source.source
        assert seen is not None  # noqa: S101
        q = linear(self.query, x).unflatten(-1, (self.heads, -1))
        q = q if self.undo == 1.0 else q * self.undo
        if seen.readers > 1:  # the beams of a text are so many queries to one source, whose keys are read once
            q = q.unflatten(0, (-1, seen.readers)).flatten(1, 2)
        mixed = self.attend(q, seen.k, seen.v, layout, seen.layout).flatten(-2)
        return linear(self.output, mixed.reshape(x.shape[:-1] + mixed.shape[-1:]))


class PostNormDecoderBlock(nn.Module):
    """The 2017 decoder block: look back, look at the source, think; normalise after each residual sum."""

    def __init__(
        self,
        attention: nn.Module,
        cross: CrossAttention,
        feedforward: nn.Module,
        norm: Callable[[], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention, self.norm_1 = attention, norm()
        self.cross, self.norm_2 = cross, norm()
        self.feedforward, self.norm_3 = feedforward, norm()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, source: SourceStates | Past, bias: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D), for a whole target beside its source, or for one more token after a past."""
        past = source if isinstance(source, Past) else None
        x = self.norm_1(x + self.dropout(self.attention(x, layout, past, bias)))
        x = self.norm_2(x + self.dropout(self.cross(x, layout, source)))
        return self.norm_3(x + self.dropout(self.feedforward(x)))


class PreNormDecoderBlock(nn.Module):
    """The same with norms before each part: T5's."""

    def __init__(
        self,
        attention: nn.Module,
        cross: CrossAttention,
        feedforward: nn.Module,
        norm: Callable[[], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.norm_1, self.attention = norm(), attention
        self.norm_2, self.cross = norm(), cross
        self.norm_3, self.feedforward = norm(), feedforward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, source: SourceStates | Past, bias: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D), for a whole target beside its source, or for one more token after a past."""
        past = source if isinstance(source, Past) else None
        x = x + self.dropout(self.attention(self.norm_1(x), layout, past, bias))
        x = x + self.dropout(self.cross(self.norm_2(x), layout, source))
        return x + self.dropout(self.feedforward(self.norm_3(x)))


def remembered(blocks: Iterable[Any], source: SourceStates) -> Cache:
    """Begin the cache of a stack of decoder blocks: nothing written yet, the source as each block sees it."""
    return Cache.sourced(block.cross.read(source) for block in blocks)


def layer_by_layer(source: SourceStates | Cache) -> Iterable[SourceStates | Past]:
    """What each block of a stack is given: the same source, or its own past."""
    return source.layers if isinstance(source, Cache) else repeat(source)


def _inner(width: int, heads: int, head_width: int | None) -> int:
    if head_width is None:
        check_heads(width, heads)
        return width
    return heads * head_width
