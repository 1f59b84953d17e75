"""Relative positions: T5's bias for each distance, and Transformer-XL's attention in XLNet's two streams."""

# B batch · T queries · S keys · H heads
# B batch · T queries · S keys · P distances · D width · H heads · K head width; … is (N) packed or (B, T) padded

from collections.abc import Callable
from math import log
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clearhead.errors import check_heads
from clearhead.nn.attention import Attend
from clearhead.nn.cache import Cache
from clearhead.nn.fused import linear
from clearhead.nn.layout import Layout, Packed, Padded


class RelativeBias(nn.Module):
    """Near distances have a bucket each, far ones share buckets that widen; all layers use the same table."""

    def __init__(self, buckets: int, farthest: int, heads: int, *, both_sides: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.farthest = farthest
        self.both_sides = both_sides

    def forward(self, layout: Layout, cache: Cache | None = None) -> Tensor:
        """The bias for `attend`: (H, T, S) for the longest rows, or (B, H, T, S) where padding may lie anywhere.

        With a cache that holds more than the layout, the last token looks at all of its columns.
        """
        if cache is not None and not isinstance(layout, Packed):
            place = torch.arange(cache.longest, device=layout.positions.device)  # the rows end in the last column
            distance = place[None, :] - place[-1]
        elif isinstance(layout, Packed) or layout.complete:
            place = torch.arange(layout.max_length, device=layout.positions.device)
            distance = place[None, :] - place[:, None]
        else:
            distance = layout.positions[:, None, :] - layout.positions[:, :, None]  # (B, T, S)
        bias: Tensor = self.table(self.bucket(distance)).movedim(-1, -3)
        return bias

    def bucket(self, distance: Tensor) -> Tensor:
        """Number the bucket of each distance, key minus query."""
        buckets = self.table.num_embeddings
        first = torch.zeros_like(distance)
        if self.both_sides:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        steps = (distance.clamp(min=1).float() / exact).log() / log(self.farthest / exact) * (buckets - exact)
        far = (exact + steps.long()).clamp(max=buckets - 1)
        return first + distance.where(distance < exact, far)


class Stream(NamedTuple):
    """Tokens that ask or are seen: where they stand in their text, in which segment, and when it is their turn."""

    layout: Layout
    position: Tensor  # (…)
    segment: Tensor  # (…)
    rank: Tensor | None = None  # (…) a token sees those of lower rank; None: all see all


class AttentionPattern(NamedTuple):
    """What the tokens of one stream see of another: the same in every layer."""

    asking: Layout
    seen: Layout
    rows: Padded  # both as rectangles, since each query has its own bias for each key
    columns: Padded
    distance: Tensor  # (B, T, S) rows in the table of distances
    other: Tensor  # (B, T, S) 1 where the two are in different segments
    allowed: Tensor | None  # (B, T, S)


def attention_pattern(asking: Stream, seen: Stream, *, itself: bool) -> AttentionPattern:
    """Work out what each token sees; `itself`: its own rank too, which is itself and what has the same turn."""
    places, others_at = (_rectangle(s.position, s.layout) for s in (asking, seen))
    sides, others = (_rectangle(s.segment, s.layout) for s in (asking, seen))
    rows, columns = (s.layout.pad(s.position)[1] if isinstance(s.layout, Packed) else s.layout for s in (asking, seen))
    allowed = None
    if asking.rank is not None and seen.rank is not None:
        mine, theirs = _rectangle(asking.rank, asking.layout)[:, :, None], _rectangle(seen.rank, seen.layout)[:, None]
        allowed = theirs <= mine if itself else theirs < mine
    return AttentionPattern(
        asking.layout,
        seen.layout,
        rows,
        columns,
        places[:, :, None] - others_at[:, None, :] + seen.layout.max_length - 1,
        (sides[:, :, None] != others[:, None, :]).long(),
        allowed,
    )


def distances(longest: int, width: int, like: Tensor) -> Tensor:
    """Sines and cosines of all distances in texts of up to `longest` tokens, from 1 - longest on: (P, D)."""
    away = torch.arange(1 - longest, longest, device=like.device, dtype=torch.float32)
    angles = away[:, None] / 10000 ** (torch.arange(0, width, 2, device=like.device) / width)
    return torch.cat([angles.sin(), angles.cos()], -1).to(like.dtype)


class RelativeAttention(nn.Module):
    """Scores add up what a key says, how far away it is, and whether it is of the same segment; each has a bias."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.distance = nn.Linear(width, width, bias=False)
        self.segment = nn.Parameter(torch.zeros(2, heads, width // heads))  # the same, another
        for name in ("content_bias", "distance_bias", "segment_bias"):
            self.register_parameter(name, nn.Parameter(torch.zeros(heads, width // heads)))
        self.attend = Attend(dropout=dropout)
        self.output = nn.Linear(width, width, bias=False)

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Make keys and values (…, H, K) of the content stream, for both streams to look at."""
        k, v = linear(self.key_value, x).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return k, v

    def forward(self, x: Tensor, keyed: tuple[Tensor, Tensor], table: Tensor, outlook: AttentionPattern) -> Tensor:
        """Let x (…, D) look at keys and values; `table` (P, D) has the distances."""
        q = _rectangle(linear(self.query, x).unflatten(-1, (self.heads, -1)), outlook.asking)  # (B, T, H, K)
        k, v = (_rectangle(part, outlook.seen) for part in keyed)
        bias = self._bias(q, table, outlook)
        mixed = self.attend(self._plus(q, "content_bias"), k, v, outlook.rows, outlook.columns, bias)
        if isinstance(outlook.asking, Packed):
            mixed = mixed.flatten(0, 1)[outlook.asking.places]
        found: Tensor = linear(self.output, mixed.flatten(-2))
        return found

    def _plus(self, q: Tensor, bias: str) -> Tensor:
        """Add a bias in the precision of the queries, which may be lower than its own."""
        return q + self.get_parameter(bias).to(q.dtype)

    def _bias(self, q: Tensor, table: Tensor, outlook: AttentionPattern) -> Tensor:
        """What is added to the scores of content: (B, H, T, S)."""
        far = linear(self.distance, table).unflatten(-1, (self.heads, -1))  # (P, H, K)
        by_distance = torch.einsum("bthk,phk->bhtp", self._plus(q, "distance_bias"), far)
        by_segment = torch.einsum("bthk,shk->bhts", self._plus(q, "segment_bias"), self.segment.to(q.dtype))
        shape = (-1, self.heads, -1, -1)
        bias = by_distance.gather(-1, outlook.distance[:, None].expand(shape))
        bias = (bias + by_segment.gather(-1, outlook.other[:, None].expand(shape))) * q.shape[-1] ** -0.5
        return bias if outlook.allowed is None else bias.masked_fill(~outlook.allowed[:, None], -torch.inf)


class TwoStreamBlock(nn.Module):
    """The 2017 block over the content stream and, if somebody asks, over the query stream with the same weights."""

    def __init__(
        self, attention: RelativeAttention, feedforward: nn.Module, norm: Callable[[], nn.Module], dropout: float
    ) -> None:
        super().__init__()
        self.attention = attention
        self.norm_1 = norm()
        self.feedforward = feedforward
        self.norm_2 = norm()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        table: Tensor,
        seen: AttentionPattern,
        asked: Tensor | None = None,
        view: AttentionPattern | None = None,
    ) -> Any:
        """Content (…, D) -> (…, D); with `asked` (M, D) and what they see, both streams."""
        keyed = self.attention.read(x)
        content = self._through(x, keyed, table, seen)
        if asked is None or view is None:
            return content
        return content, self._through(asked, keyed, table, view)

    def _through(self, x: Tensor, keyed: tuple[Tensor, Tensor], table: Tensor, outlook: AttentionPattern) -> Tensor:
        x = self.norm_1(x + self.dropout(self.attention(x, keyed, table, outlook)))
        return self.norm_2(x + self.dropout(self.feedforward(x)))


def _rectangle(x: Tensor, layout: Layout) -> Tensor:
    """Lay tokens out as (B, T, …); without the layout that `Packed.pad` makes each time."""
    if isinstance(layout, Padded):
        return x
    flat = x.new_zeros(layout.batch * layout.max_length, *x.shape[1:])
    return flat.index_copy(0, layout.places, x).unflatten(0, (layout.batch, layout.max_length))
