"""What a decoder remembers of the tokens before: their keys and values in every layer, one row per sequence."""

# B running sequences · S columns · H heads · K head width

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Self

import torch
from torch import Tensor

from clearhead.nn.layout import Layout, Packed, Padded

_STEP = 16  # columns added when a memory is full


@dataclass(frozen=True)
class Keyed:
    """A source as one layer of cross-attention sees it: keys and values (N, H, K) or (B, S, H, K).

    `readers` sequences, neighbours in the batch, read each source: the beams of one text.
    """

    k: Tensor
    v: Tensor
    layout: Layout
    readers: int = 1

    def padded(self) -> "Keyed":
        """Lay it out as a rectangle, as the steps of a decoder want it."""
        if isinstance(self.layout, Padded):
            return self
        (k, layout), (v, _) = self.layout.pad(self.k), self.layout.pad(self.v)
        return Keyed(k, v, replace(layout, complete=len(set(self.layout.lengths)) <= 1))

    def select(self, rows: Tensor, readers: int) -> "Keyed":
        """Take the sources of these sequences, in this order; each source is then read by so many of them."""
        assert isinstance(self.layout, Padded)  # noqa: S101
        sources = rows[::readers] // self.readers
        if len(sources) == len(self.k) and torch.equal(sources, torch.arange(len(sources), device=rows.device)):
            return replace(self, readers=readers)
        layout = replace(self.layout, keep=self.layout.keep[sources], positions=self.layout.positions[sources])
        return Keyed(self.k.index_select(0, sources), self.v.index_select(0, sources), layout, readers)


class Past:
    """One layer's keys and values. All rows end in the last column, so that a step writes one column."""

    def __init__(self, columns: "Columns", source: Keyed | None = None) -> None:
        self.columns = columns
        self.source = source
        self._held: Tensor | None = None  # (B, room, 2, H, K)

    def extend(self, k: Tensor, v: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Padded | None]:
        """Remember the keys and values of new tokens; give those to attend to, and their layout unless it is `layout`.

        The first tokens come packed, (N, H, K); after them, every sequence gets one more, (B, 1, H, K).
        """
        if isinstance(layout, Packed):
            self._held = _aligned(torch.stack([k, v], 1), layout)
            return k, v, None
        count = self.columns.count
        held = self._room_for(count, k)
        held[:, count - 1, 0], held[:, count - 1, 1] = k[:, 0], v[:, 0]
        return held[:, :count, 0], held[:, :count, 1], self.columns.layout

    def select(self, rows: Tensor, columns: "Columns", readers: int | None) -> "Past":
        """Take these rows, in this order; `readers` of each source, or None if they read the same ones as before."""
        source = self.source if readers is None or self.source is None else self.source.select(rows, readers)
        past = Past(columns, source)
        if self._held is not None:
            gone = self.columns.count - columns.count  # columns that only sequences that left had tokens in
            held, used = self._held[:, gone:], columns.count
            past._held = held.new_empty(len(rows), *held.shape[1:])
            torch.index_select(held[:, :used], 0, rows, out=past._held[:, :used])
            self._held = None  # now, so that the next layer can move to where this one was: fresh memory is slow
        return past

    def _room_for(self, count: int, like: Tensor) -> Tensor:
        held = self._held
        if held is None or count > held.shape[1]:
            more = like.new_empty(like.shape[0], _STEP, 2, *like.shape[2:])
            held = more if held is None else torch.cat([held, more], 1)
        self._held = held
        return held


@dataclass
class Columns:
    """Which columns of the memory are real tokens; the same for every layer."""

    lengths: Tensor  # (B,) tokens of each sequence
    count: int  # columns in use, at least the longest length
    layout: Padded

    @classmethod
    def of(cls, lengths: Tensor, count: int, *, complete: bool) -> Self:
        """Lay out rows that end in the same column."""
        place = torch.arange(count, device=lengths.device)
        keep = place >= (count - lengths)[:, None]
        return cls(lengths, count, replace(Padded.of(keep), complete=complete))

    def longer(self) -> Self:
        """Add one column."""
        return type(self).of(self.lengths + 1, self.count + 1, complete=self.layout.complete)

    def select(self, rows: Tensor) -> Self:
        """Take these rows, in this order, and no more columns than the longest has tokens."""
        lengths, complete = self.lengths[rows], self.layout.complete
        count = self.count if complete or not len(rows) else int(lengths.max())
        return type(self).of(lengths, count, complete=complete)


class Cache:
    """The memory of all layers. It starts empty, or with the keyed sources of an encoder–decoder."""

    def __init__(self, columns: Columns, layers: list[Past], owners: Tensor | None = None) -> None:
        self.columns = columns
        self.layers = layers
        self._owners = owners  # which source each row reads

    @classmethod
    def prompted(cls, layers: int, layout: Packed) -> Self:
        """Make the memory of a decoder that is about to read prompts."""
        complete = len(set(layout.lengths)) <= 1
        columns = Columns.of(layout.offsets.diff().long(), layout.max_length, complete=complete)
        return cls(columns, [Past(columns) for _ in range(layers)])

    @classmethod
    def sourced(cls, sources: Iterable[Keyed]) -> Self:
        """Make the memory of a decoder that has read nothing yet, beside its sources as each layer sees them."""
        sources = [source.padded() for source in sources]
        owners = torch.arange(sources[0].layout.batch, device=sources[0].k.device)
        columns = Columns.of(torch.zeros_like(owners), 0, complete=True)
        return cls(columns, [Past(columns, source) for source in sources], owners)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return self.columns.count

    def step(self) -> Padded:
        """Make room for one more token of every sequence: the layout (B, 1) to run the decoder with."""
        self.columns = self.columns.longer()
        for layer in self.layers:
            layer.columns = self.columns
        positions = self.columns.lengths[:, None] - 1
        return Padded(torch.ones_like(positions, dtype=torch.bool), positions, complete=True)

    def select(self, rows: Tensor) -> "Cache":
        """Take these rows, in this order: beams move, finished sequences leave. The old memory is then empty."""
        columns = self.columns.select(rows)
        owners = None if self._owners is None else self._owners[rows]
        # beams mostly move among those of one source, whose keys then stay where they are
        same = owners is None or self._owners is None or torch.equal(owners, self._owners)
        readers = None if same or owners is None else _readers(owners.tolist())
        return Cache(columns, [past.select(rows, columns, readers) for past in self.layers], owners)


def _readers(owners: list[int]) -> int:
    """How many neighbours read each source: as many of every one, or one where their numbers differ."""
    counts = {len(list(group)) for _, group in groupby(owners)}
    return counts.pop() if len(counts) == 1 else 1


def _aligned(x: Tensor, layout: Packed) -> Tensor:
    """Lay packed tokens out so that all rows end in the last column: (N, …) -> (B, S, …)."""
    lengths = layout.offsets.diff().long()
    shift = (layout.max_length - lengths).repeat_interleave(lengths, output_size=x.shape[0])
    held = x.new_zeros(layout.batch * layout.max_length, *x.shape[1:])
    held[layout.places + shift] = x
    return held.unflatten(0, (layout.batch, layout.max_length))
