"""The KV cache of a decoder: keys and values of the tokens before, in every layer, one row per sequence."""

# B running sequences · S columns · H heads · K head width

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Self

import torch
from torch import Tensor

from clearhead.nn.layout import Layout, Packed, Padded

_STEP = 16  # columns added when a cache is full


class Cache:
    """The keys and values of all layers. It starts empty, or with the sources of an encoder–decoder."""

    def __init__(self, layout: "CacheLayout", layers: list["LayerCache"], owners: Tensor | None = None) -> None:
        self.layout = layout
        self.layers = layers
        self._owners = owners  # which source each row reads

    @classmethod
    def for_prompts(cls, layers: int, prompts: Packed) -> Self:
        """Make the cache of a decoder that is about to read prompts."""
        complete = len(set(prompts.lengths)) <= 1
        layout = CacheLayout.of(prompts.offsets.diff().long(), prompts.max_length, complete=complete)
        return cls(layout, [LayerCache(layout) for _ in range(layers)])

    @classmethod
    def for_sources(cls, sources: Iterable["SourceKV"]) -> Self:
        """Make the cache of a decoder that has written nothing yet; `sources` as each layer sees them."""
        sources = [source.padded() for source in sources]
        owners = torch.arange(sources[0].layout.batch, device=sources[0].k.device)
        layout = CacheLayout.of(torch.zeros_like(owners), 0, complete=True)
        return cls(layout, [LayerCache(layout, source) for source in sources], owners)

    @property
    def max_length(self) -> int:
        """Tokens of the longest sequence."""
        return self.layout.count

    def distances(self) -> Tensor:
        """How far each column is from the last token, (1, S): 0 for itself, less for those before."""
        columns = torch.arange(self.layout.count, device=self.layout.lengths.device)
        return columns[None] - (self.layout.count - 1)

    def step(self) -> Padded:
        """Make room for one more token of every sequence: the layout (B, 1) to run the decoder with."""
        old = self.layout
        self.layout = CacheLayout.of(old.lengths + 1, old.count + 1, complete=old.keys.complete)
        for layer in self.layers:
            layer.layout = self.layout
        positions = self.layout.lengths[:, None] - 1
        return Padded(torch.ones_like(positions, dtype=torch.bool), positions, complete=True)

    def select(self, rows: Tensor) -> "Cache":
        """Take these rows, in this order: beams move, finished sequences leave. The old cache is then empty."""
        layout, before, readers = self.layout.select(rows), self._owners, None
        owners = None if before is None else before[rows]
        # beams mostly move among those of one source, whose keys then stay where they are
        if owners is not None and before is not None and not torch.equal(owners, before):
            counts = {len(list(group)) for _, group in groupby(owners.tolist())}
            readers = counts.pop() if len(counts) == 1 else 1
        return Cache(layout, [layer.select(rows, layout, readers) for layer in self.layers], owners)


class LayerCache:
    """One layer's keys and values. All rows end in the last column, so that a step writes one column."""

    def __init__(self, layout: "CacheLayout", source: "SourceKV | None" = None) -> None:
        self.layout = layout
        self.source = source
        self._kv: Tensor | None = None  # (B, capacity, 2, H, K)

    def extend(self, k: Tensor, v: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Padded | None]:
        """Append the keys and values of new tokens; give those to attend to, and their layout unless it is `layout`.

        The first tokens come packed, (N, H, K); after them, every sequence gets one more, (B, 1, H, K).
        """
        if isinstance(layout, Packed):
            self._kv = _aligned(torch.stack([k, v], 1), layout)
            return k, v, None
        count, kv = self.layout.count, self._kv
        if kv is None or count > kv.shape[1]:
            more = k.new_empty(k.shape[0], _STEP, 2, *k.shape[2:])
            kv = self._kv = more if kv is None else torch.cat([kv, more], 1)
        kv[:, count - 1, 0], kv[:, count - 1, 1] = k[:, 0], v[:, 0]
        return kv[:, :count, 0], kv[:, :count, 1], self.layout.keys

    def select(self, rows: Tensor, layout: "CacheLayout", readers: int | None) -> "LayerCache":
        """Take these rows, in this order; `readers` of each source, or None if they read the same ones as before."""
        source = self.source if readers is None or self.source is None else self.source.select(rows, readers)
        selected = LayerCache(layout, source)
        if self._kv is not None:
            gone = self.layout.count - layout.count  # columns that only sequences that left had tokens in
            kv, used = self._kv[:, gone:], layout.count
            selected._kv = kv.new_empty(len(rows), *kv.shape[1:])
            torch.index_select(kv[:, :used], 0, rows, out=selected._kv[:, :used])
            self._kv = None  # now, so that the next layer can move to where this one was: fresh memory is slow
        return selected


class FixedCache(Cache):
    """A cache whose memory neither moves nor grows, so that a step can be recorded and replayed: R rows, C columns.

    What changes from step to step is counted on the device. Rows that no sequence needs repeat the first one.
    """

    def __init__(self, like: Cache, rows: int, columns: int, source_columns: int) -> None:
        lengths = like.layout.lengths.new_zeros(rows)
        self._columns = torch.arange(columns, device=lengths.device)
        self._last = lengths.new_zeros(1)  # the column of the last token
        layout = CacheLayout(lengths, 0, Padded.full(lengths[:, None]))
        layers = [FixedLayer(layer, layout, self._last, columns, source_columns) for layer in like.layers]
        super().__init__(layout, list(layers))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.layout.lengths)

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    def step(self) -> Padded:
        """Make room for one more token of every sequence. All that a replay must do again is done on the device."""
        lengths = self.layout.lengths
        lengths += 1
        self._last += 1
        first = self._last - lengths[:, None]  # the column before the first token of each row
        keep = (self._columns > first) & (self._columns <= self._last)
        self.layout.keys = Padded(keep, (self._columns - first - 1).clamp(min=0))
        positions = lengths[:, None] - 1
        return Padded(torch.ones_like(positions, dtype=torch.bool), positions, complete=True)

    def distances(self) -> Tensor:
        """How far each column is from the last token, (1, S): 0 for itself, less for those before."""
        return (self._columns - self._last)[None]

    def take(self, cache: Cache, rows: Tensor) -> None:
        """Become these rows (R,) of another cache, or of this one."""
        count = cache.layout.count
        self.layout.lengths.copy_(cache.layout.lengths[rows])
        self.layout.count = count
        self._last.fill_(count - 1)
        before, owners = self._owners, None if cache._owners is None else cache._owners[rows]
        # beams mostly move among those of one source, whose keys then stay where they are
        stay = cache is self and before is not None and owners is not None and torch.equal(before, owners)
        self._owners = owners
        for mine, layer in zip(self.layers, cache.layers, strict=True):
            assert isinstance(mine, FixedLayer)  # noqa: S101
            mine.take(layer, rows, count, sources=not stay)

    def rewind(self, lengths: Tensor) -> None:
        """Forget the last step, before which the sequences had these lengths."""
        self.layout.lengths.copy_(lengths)
        self._last -= 1


class FixedLayer(LayerCache):
    """One layer of a `FixedCache`."""

    def __init__(
        self, like: LayerCache, layout: "CacheLayout", last: Tensor, columns: int, source_columns: int
    ) -> None:
        super().__init__(layout)
        self._last = last
        rows = len(layout.lengths)
        assert like._kv is not None  # noqa: S101
        # zeros, since what is not attended to counts nothing only while it is a number
        self._kv: Tensor = like._kv.new_zeros(rows, columns, *like._kv.shape[2:])
        if like.source is not None:
            k, v = (x.new_zeros(rows, source_columns, *x.shape[2:]) for x in (like.source.k, like.source.v))
            self.source = SourceKV(k, v, Padded.of(torch.zeros(k.shape[:2], dtype=torch.bool, device=k.device)))

    def extend(self, k: Tensor, v: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Padded | None]:
        """Append one token of every sequence, (B, 1, H, K); give all columns, and which of them are in use."""
        self._kv.index_copy_(1, self._last, torch.stack([k, v], 2))
        return self._kv[:, :, 0], self._kv[:, :, 1], self.layout.keys

    def take(self, layer: LayerCache, rows: Tensor, count: int, *, sources: bool) -> None:
        """Become these rows (R,) of another layer, or of this one; with what each reads of a source, if that moved."""
        assert layer._kv is not None  # noqa: S101
        self._kv[:, :count] = layer._kv[rows, :count]
        if sources and self.source is not None and layer.source is not None:
            self.source.take(layer.source, rows)


def _aligned(x: Tensor, layout: Packed) -> Tensor:
    """Lay packed tokens out so that all rows end in the last column: (N, …) -> (B, S, …)."""
    lengths = layout.offsets.diff().long()
    shift = (layout.max_length - lengths).repeat_interleave(lengths, output_size=x.shape[0])
    rows = x.new_zeros(layout.batch * layout.max_length, *x.shape[1:])
    rows[layout.places + shift] = x
    return rows.unflatten(0, (layout.batch, layout.max_length))


@dataclass
class CacheLayout:
    """Which columns of the cache are real tokens; the same for every layer."""

    lengths: Tensor  # (B,) tokens of each sequence
    count: int  # columns in use, at least the longest length
    keys: Padded

    @classmethod
    def of(cls, lengths: Tensor, count: int, *, complete: bool) -> Self:
        """Lay out rows that end in the same column."""
        column = torch.arange(count, device=lengths.device)
        keep = column >= (count - lengths)[:, None]
        return cls(lengths, count, replace(Padded.of(keep), complete=complete))

    def select(self, rows: Tensor) -> Self:
        """Take these rows, in this order, and no more columns than the longest has tokens."""
        lengths, complete = self.lengths[rows], self.keys.complete
        count = self.count if complete or not len(rows) else int(lengths.max())
        return type(self).of(lengths, count, complete=complete)


@dataclass(frozen=True)
class SourceKV:
    """A source as one layer of cross-attention sees it: keys and values (N, H, K) or (B, S, H, K).

    `readers` sequences, neighbours in the batch, read each source: the beams of one text.
    """

    k: Tensor
    v: Tensor
    layout: Layout
    readers: int = 1

    def padded(self) -> "SourceKV":
        """Lay it out as a rectangle, as the steps of a decoder want it."""
        if isinstance(self.layout, Padded):
            return self
        (k, layout), (v, _) = self.layout.pad(self.k), self.layout.pad(self.v)
        return SourceKV(k, v, replace(layout, complete=len(set(self.layout.lengths)) <= 1))

    def select(self, rows: Tensor, readers: int) -> "SourceKV":
        """Take the sources of these sequences, in this order; each source is then read by so many of them."""
        assert isinstance(self.layout, Padded)  # noqa: S101
        sources = rows[::readers] // self.readers
        if len(sources) == len(self.k) and torch.equal(sources, torch.arange(len(sources), device=rows.device)):
            return replace(self, readers=readers)
        layout = replace(self.layout, keep=self.layout.keep[sources], positions=self.layout.positions[sources])
        return SourceKV(self.k.index_select(0, sources), self.v.index_select(0, sources), layout, readers)

    def take(self, other: "SourceKV", rows: Tensor) -> None:
        """Become these rows of other sources, each of which is read by one sequence, in the memory that is there."""
        assert isinstance(self.layout, Padded) and isinstance(other.layout, Padded)  # noqa: S101, PT018
        own, theirs = ((one.k, one.v, one.layout.keep) for one in (self, other))  # type: ignore[union-attr]
        found = [x[rows] for x in theirs]
        self.layout.keep.zero_()
        for mine, taken in zip(own, found, strict=True):
            mine[:, : taken.shape[1]] = taken
