"""Relative positions: T5's bias for each distance, Transformer-XL's attention in XLNet's two streams, DeBERTa's."""

# B batch · T queries · S keys · P distances · D width · H heads · K head width; … is (N) packed or (B, T) padded

from math import log
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import check_heads
from clearhead.nn.attention import Attend
from clearhead.nn.blocks import PostNormBlock
from clearhead.nn.cache import Cache
from clearhead.nn.fused import linear
from clearhead.nn.layout import Layout, Packed, Padded


class RelativeBias(nn.Module):
    """T5's bias: near distances have a bucket each, far ones share buckets that widen; one table for all layers."""

    def __init__(self, buckets: int, max_distance: int, heads: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.max_distance = max_distance
        self.bidirectional = bidirectional

    def forward(self, layout: Layout, cache: Cache | None = None) -> Tensor:
        """The bias for `attend`: (H, T, S) for the longest rows, or (B, H, T, S) where padding may lie anywhere.

        With a cache that holds more than the layout, the last token attends to all of its columns.
        """
        # rows of a cache end in the last column
        distance = _distance(layout) if cache is None or isinstance(layout, Packed) else cache.distances()
        bias: Tensor = self.table(self.bucket(distance)).movedim(-1, -3)
        return bias

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance, key minus query."""
        buckets = self.table.num_embeddings
        first = torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        steps = (distance.clamp(min=1).float() / exact).log() / log(self.max_distance / exact) * (buckets - exact)
        far = (exact + steps.long()).clamp(max=buckets - 1)
        return first + distance.where(distance < exact, far)


def _distance(layout: Layout) -> Tensor:
    """Key minus query: (T, S) for the longest rows, or (B, T, S) where padding may be anywhere."""
    if isinstance(layout, Packed) or layout.complete:
        position = torch.arange(layout.max_length, device=layout.positions.device)
        return position[None, :] - position[:, None]
    return layout.positions[:, None, :] - layout.positions[:, :, None]


class Stream(NamedTuple):
    """Tokens that attend or are attended to: their positions, segments, and ranks in the order of factorisation."""

    layout: Layout
    position: Tensor  # (…)
    segment: Tensor  # (…)
    rank: Tensor | None = None  # (…) a token attends to those of lower rank; None: all to all


def remembered(stream: Stream, before: int) -> tuple[Stream, Stream]:
    """The queries of a rectangle's segment, and its keys behind `before` remembered tokens.

    What is remembered is in segment 0, as in the published code, and seen by all.
    """
    layout, position, segment, rank = stream
    assert isinstance(layout, Padded)  # noqa: S101
    rows = layout.batch

    def behind(old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([old.expand(rows, -1).to(new.dtype), new], 1)

    zeros = segment.new_zeros(before)
    places = behind(torch.arange(before, device=segment.device), layout.positions + before)
    keys = Padded(behind(zeros == 0, layout.keep), places, layout.backend, layout.complete)
    queries = Stream(layout, position + before, segment, rank)
    return queries, Stream(keys, places, behind(zeros, segment), None if rank is None else behind(zeros, rank))


class AttentionPattern(NamedTuple):
    """What the queries of one stream attend to in another: the same in every layer."""

    queries: Layout
    keys: Layout
    padded_queries: Padded  # both as rectangles, since each query has its own bias for each key
    padded_keys: Padded
    distance: Tensor  # (B, T, S) rows in the table of distances
    other_segment: Tensor  # (B, T, S) 1 where query and key are in different segments
    allowed: Tensor | None  # (B, T, S)


def attention_pattern(queries: Stream, keys: Stream, *, itself: bool) -> AttentionPattern:
    """Work out what each query attends to; `itself`: keys of its own rank too, which are itself and its equals."""
    q_layout, k_layout = (
        s.layout.pad(s.position)[1] if isinstance(s.layout, Packed) else s.layout for s in (queries, keys)
    )

    def pairs(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return _rectangle(q, queries.layout)[:, :, None], _rectangle(k, keys.layout)[:, None, :]

    q, k = pairs(queries.position, keys.position)
    distance = q - k + keys.layout.max_length - 1
    q, k = pairs(queries.segment, keys.segment)
    other_segment = (q != k).long()
    allowed = None
    if queries.rank is not None and keys.rank is not None:
        q, k = pairs(queries.rank, keys.rank)
        allowed = k <= q if itself else k < q
    return AttentionPattern(queries.layout, keys.layout, q_layout, k_layout, distance, other_segment, allowed)


def distances(longest: int, width: int, like: Tensor) -> Tensor:
    """Sines and cosines of all distances in texts of up to `longest` tokens, from 1 - longest on: (P, D)."""
    away = torch.arange(1 - longest, longest, device=like.device, dtype=torch.float32)
    angles = away[:, None] / 10000 ** (torch.arange(0, width, 2, device=like.device) / width)
    return torch.cat([angles.sin(), angles.cos()], -1).to(like.dtype)


class RelativeAttention(nn.Module):
    """Transformer-XL's: scores are sums for content, distance and segment, each with a bias of its own."""

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
        """Make keys and values (…, H, K) of the content stream, for both streams to attend to."""
        k, v = linear(self.key_value, x).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return k, v

    def forward(self, x: Tensor, kv: tuple[Tensor, Tensor], table: Tensor, pattern: AttentionPattern) -> Tensor:
        """Let x (…, D) attend to keys and values; `table` (P, D) has the distances."""
        q = _rectangle(linear(self.query, x).unflatten(-1, (self.heads, -1)), pattern.queries)  # (B, T, H, K)
        k, v = (_rectangle(part, pattern.keys) for part in kv)
        bias = self._bias(q, table, pattern)
        mixed = self.attend(self._plus(q, "content_bias"), k, v, pattern.padded_queries, pattern.padded_keys, bias)
        if isinstance(pattern.queries, Packed):
            mixed = mixed.flatten(0, 1)[pattern.queries.places]
        found: Tensor = linear(self.output, mixed.flatten(-2))
        return found

    def _plus(self, q: Tensor, bias: str) -> Tensor:
        """Add a bias in the precision of the queries, which may be lower than its own."""
        return q + self.get_parameter(bias).to(q.dtype)

    def _bias(self, q: Tensor, table: Tensor, pattern: AttentionPattern) -> Tensor:
        """What is added to the scores for content: (B, H, T, S)."""
        keys = linear(self.distance, table).unflatten(-1, (self.heads, -1))  # (P, H, K)
        by_distance = torch.einsum("bthk,phk->bhtp", self._plus(q, "distance_bias"), keys)
        by_segment = torch.einsum("bthk,shk->bhts", self._plus(q, "segment_bias"), self.segment.to(q.dtype))
        shape = (-1, self.heads, -1, -1)
        bias = by_distance.gather(-1, pattern.distance[:, None].expand(shape))
        bias = (bias + by_segment.gather(-1, pattern.other_segment[:, None].expand(shape))) * q.shape[-1] ** -0.5
        return bias if pattern.allowed is None else bias.masked_fill(~pattern.allowed[:, None], -torch.inf)


class TwoStreamBlock(PostNormBlock):
    """The 2017 block over the content stream and, where words are guessed, the query stream with the same weights."""

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        table: Tensor,
        pattern: AttentionPattern,
        queries: Tensor | None = None,
        query_pattern: AttentionPattern | None = None,
        before: Tensor | None = None,
    ) -> Any:
        """Content (…, D) -> (…, D); with `queries` (M, D) and what they attend to, both streams.

        Both attend to what is remembered of the tokens `before` as well, (B, S, D).
        """
        kv = self.attention.read(x if before is None else torch.cat([before, x], 1))
        content = self._stream(x, kv, table, pattern)
        if queries is None or query_pattern is None:
            return content
        return content, self._stream(queries, kv, table, query_pattern)

    def _stream(self, x: Tensor, kv: tuple[Tensor, Tensor], table: Tensor, pattern: AttentionPattern) -> Tensor:
        x = self.norm_1(x + self.dropout(self.attention(x, kv, table, pattern)))
        return self.norm_2(x + self.dropout(self.feedforward(x)))


class Distances(nn.Module):
    """DeBERTa's vectors of distances, normalised: one table for all layers, far distances in buckets that widen.

    Without `buckets`, each distance has a row of its own.
    """

    def __init__(self, buckets: int, max_distance: int, width: int, norm_eps: float) -> None:
        super().__init__()
        self.buckets = buckets
        self.max_distance = max_distance
        self.reach = buckets or max_distance  # rows to either side
        self.table = nn.Embedding(2 * self.reach, width)
        self.norm = nn.LayerNorm(width, eps=norm_eps)

    def forward(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """The vectors (P, D) that these texts ask for, and which of them each query has for each key.

        The second is (T, S) for the longest rows, or (B, T, S) where padding may be anywhere.
        """
        # of short texts, most of the table is never looked up; what is need not be asked of a GPU
        last = int(self._row(torch.tensor(max(layout.max_length - 1, 0))))
        first = int(self._row(torch.tensor(-max(layout.max_length - 1, 0))))
        rows = self._row(-_distance(layout)) - first
        return self.norm(self.table.weight[first : last + 1]), rows

    def _row(self, distance: Tensor) -> Tensor:
        """The row of a distance, query minus key."""
        if self.buckets:
            exact = self.buckets // 2
            far = (distance.abs().clamp(min=exact) / exact).log()
            far = (far / torch.tensor((self.max_distance - 1) / exact).log() * (exact - 1)).ceil().long() + exact
            distance = distance.where(distance.abs() <= exact, far * distance.sign())
        return (distance + self.reach).clamp(0, 2 * self.reach - 1)


class DisentangledAttention(nn.Module):
    """DeBERTa's: scores are sums of content to content, content to distance and distance to content, over √3K.

    Distances go through the matrices that make queries and keys of content.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, distance_dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.attend = Attend(dropout=dropout)
        self.dropout = nn.Dropout(distance_dropout)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, layout: Layout, vectors: Tensor, rows: Tensor) -> Tensor:
        """(…, D) -> (…, D); `vectors` and `rows` are what `Distances` gives."""
        q, k, v = (_rectangle(part, layout) for part in self._parts(x))  # (B, T, H, K)
        q = q * 3**-0.5  # of the three sums; √K is for `attend` to divide by
        far_q, far_k, _ = self._parts(self.dropout(vectors))  # (P, H, K)
        index = (rows if rows.dim() == 2 else rows[:, None]).expand(len(q), self.heads, -1, -1)  # (B, H, T, S)
        to_distance = torch.einsum("bthk,phk->bhtp", q, far_k).gather(-1, index)
        from_distance = torch.einsum("bshk,phk->bhsp", k, far_q * 3**-0.5).gather(-1, index.mT).mT
        bias = (to_distance + from_distance) * q.shape[-1] ** -0.5
        padded = layout.pad(layout.positions)[1] if isinstance(layout, Packed) else layout
        mixed = self.attend(q, k, v, padded, None, bias)
        if isinstance(layout, Packed):
            mixed = mixed.flatten(0, 1)[layout.places]
        found: Tensor = linear(self.output, mixed.flatten(-2))
        return found

    def _parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, (…, H, K) each."""
        return linear(self.qkv, x).unflatten(-1, (3, self.heads, -1)).unbind(-3)


class ConvolvedBlock(PostNormBlock):
    """The first block of DeBERTa v2: what enters it, convolved over neighbouring tokens, is added at its end."""

    def __init__(self, attention: Any, feedforward: Any, norm: Any, dropout: float, *, width: int, kernel: int) -> None:
        super().__init__(attention, feedforward, norm, dropout)
        self.convolution = nn.Conv1d(width, width, kernel, padding=(kernel - 1) // 2)
        self.norm_3 = norm()

    def forward(self, x: Tensor, layout: Layout, *given: Any) -> Tensor:
        """(…, D) -> (…, D)."""
        near = self.convolution(_texts_first(x, layout).mT).mT  # (B, T, D)
        if isinstance(layout, Packed):
            near = near.flatten(0, 1)[layout.places]
        else:
            near = near.gather(1, layout.positions[..., None].expand_as(x))
        return self.norm_3(super().forward(x, layout, *given) + F.gelu(self.dropout(near)))


def _texts_first(x: Tensor, layout: Layout) -> Tensor:
    """Lay tokens out as (B, T, D), each text from the first column on and zeros behind it, wherever padding was."""
    if isinstance(layout, Packed):
        return _rectangle(x, layout)
    place = layout.positions.where(layout.keep, x.shape[1])[..., None].expand_as(x)
    return x.new_zeros(len(x), x.shape[1] + 1, x.shape[2]).scatter(1, place, x)[:, :-1]


def _rectangle(x: Tensor, layout: Layout) -> Tensor:
    """Lay tokens out as (B, T, …); without the layout that `Packed.pad` makes each time."""
    if isinstance(layout, Padded):
        return x
    flat = x.new_zeros(layout.batch * layout.max_length, *x.shape[1:])
    return flat.index_copy(0, layout.places, x).unflatten(0, (layout.batch, layout.max_length))
