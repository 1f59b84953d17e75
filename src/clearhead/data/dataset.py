"""Tokenised examples in a few flat arrays, and the order in which they become batches."""

# N tokens of all sequences · S sequences · E items, which are shuffled: texts, windows, pairs, questions with choices

import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batch import Batch, Ints, chunks, cut_by_cost
from clearhead.data.rng import Stream, order, rng
from clearhead.errors import BadConfig, InputTooLong, require
from clearhead.nn.layout import Packed
from clearhead.text.encoding import Special, Template
from clearhead.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]
_BLOCK = 2048  # texts that are tokenised at a time
_POOL = 50  # batches that are sorted together when lengths are grouped: alike inside, still mixed over the epoch

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class TokenizedDataset:
    """Sequences, what is to be learnt of each item and of each token, and which sequences an item is made of.

    `members` (E, W) has -1 where an item has fewer than W sequences. A batch holds its items one after another, or,
    `by_column`, first the first sequences of all items, then all second ones.
    """

    ids: NDArray[np.int32]  # (N,)
    offsets: Ints  # (S + 1,)
    segments: NDArray[np.int8] | None  # (N,)
    members: Ints  # (E, W)
    targets: Arrays = field(default_factory=dict)  # (E, …)
    token_targets: Arrays = field(default_factory=dict)  # (N,)
    by_column: bool = False

    def __len__(self) -> int:
        return len(self.members)

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return len(self.ids)

    def lengths(self) -> Ints:
        """Tokens of each item, (E,)."""
        lengths = np.append(np.diff(self.offsets), 0)  # a missing member, -1, finds the 0
        return lengths[self.members].sum(1)

    def sequences(self, items: Ints) -> Ints:
        """Which sequences these items are made of, in the order of a batch."""
        rows = self.members[items]
        found = (rows.T if self.by_column else rows).ravel()
        return found if rows.shape[1] == 1 else found[found >= 0]

    def token_indices(self, sequences: Ints) -> Ints:
        """Where the tokens of these sequences lie, one after another."""
        starts = self.offsets[sequences]
        lengths = self.offsets[sequences + 1] - starts
        before = np.cumsum(lengths) - lengths
        return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)

    def batch(self, items: Ints) -> Batch:
        """Gather these items, packed."""
        sequences = self.sequences(items)
        places = self.token_indices(sequences)
        layout = Packed.of((self.offsets[sequences + 1] - self.offsets[sequences]).tolist())
        targets = {name: torch.from_numpy(values[items]) for name, values in self.targets.items()}
        targets |= {name: torch.from_numpy(values[places]) for name, values in self.token_targets.items()}
        segments = None if self.segments is None else torch.from_numpy(self.segments[places]).long()
        return Batch(torch.from_numpy(self.ids[places]).long(), layout, segments, targets)


class DatasetBuilder:
    """Puts the special tokens round texts and lays the sequences end to end.

    With `length`, longer sequences are cut, the longer text of a pair first, and it is said how many.
    """

    def __init__(self, template: Template, *, length: int | None = None, pair: bool = False) -> None:
        specials = template.specials(pair=pair)
        self._template = template
        self._room = None if length is None else length - specials
        fits = self._room is None or self._room >= (2 if pair else 1)
        told = f"special tokens take {specials}"
        require(fits, f"Inputs of {length} tokens have no room for text: {told}.", InputTooLong)
        self._shortened = 0
        self._ids, self._segments = array("i"), array("b")
        self._ends = [0]

    def add(
        self,
        first: Sequence[int],
        second: Sequence[int] | None = None,
        *,
        capitals: Sequence[Sequence[int]] | None = None,
    ) -> int:
        """Write one sequence; the answer is the place of its last text, counted from the sequence's start.

        `capitals`, of each text, take the place of the template's segments.
        """
        if self._room is not None and len(first) + len(second or ()) > self._room:
            self._shortened += 1
            if second is not None:
                second = second[: max(self._room - len(first), self._room // 2)]
            first = first[: self._room - len(second or ())]
        if capitals is not None:
            capitals = [kinds[: len(text)] for kinds, text in zip(capitals, (first, second or ()), strict=False)]
        place = 0
        for item in self._template.single if second is None else self._template.pair:
            if isinstance(item, Special):
                self._ids.append(item.id)
                self._segments.append(item.segment if capitals is None else 0)
                continue
            text = first if item.part == 0 or second is None else second
            place = len(self._ids) - self._ends[-1]
            self._ids.extend(text)
            self._segments.extend([item.segment] * len(text) if capitals is None else capitals[item.part])
        self._ends.append(len(self._ids))
        return place

    def add_ids(self, ids: Sequence[int]) -> None:
        """Write one sequence as it is, all of one segment."""
        self._ids.extend(ids)
        self._segments.extend([0] * len(ids))
        self._ends.append(len(self._ids))

    def build(
        self,
        *,
        members: Ints | None = None,
        targets: Arrays | None = None,
        token_targets: Arrays | None = None,
        by_column: bool = False,
    ) -> TokenizedDataset:
        """Close the arrays; without `members`, every sequence is an item. Segments that are all 0 need no array."""
        if self._shortened:
            log.warning("%d inputs were longer than the model takes and were cut.", self._shortened)
        ids, segments = np.asarray(self._ids, dtype=np.int32), np.asarray(self._segments, dtype=np.int8)
        if members is None:
            members = np.arange(len(self._ends) - 1).reshape(-1, 1)
        offsets = np.array(self._ends, dtype=np.int64)
        told = segments if segments.any() else None
        return TokenizedDataset(ids, offsets, told, members, targets or {}, token_targets or {}, by_column)


def in_blocks(tokenise: Callable[[list[Given]], Iterable[Found]], texts: Iterable[Given]) -> Iterator[Found]:
    """Tokenise many texts, a block at a time, since what the library makes of each is larger than its ids."""
    return chain.from_iterable(map(tokenise, chunks(texts, _BLOCK)))


def ids_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise many texts, without special tokens."""
    return list(in_blocks(tokenizer.ids_batch, texts))


def ids_and_capitals(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[list[list[int]], list[list[int]] | None]:
    """The same, and the kind of capitals of each piece if the tokenizer tells them."""
    if not tokenizer.tells_capitals:
        return ids_of(tokenizer, texts), None
    found = [(pieces.ids, pieces.capitals or []) for pieces in in_blocks(tokenizer.pieces_batch, texts)]
    return [ids for ids, _ in found], [capitals for _, capitals in found]


class ShuffledBatches:
    """A source (see `data.rng`) of shuffled examples, `items` or at most `tokens` to a batch.

    An item longer than `tokens` is a batch of its own. `grouped` puts items of like length together, which the
    attention of a CPU likes; batches come in random order all the same.
    """

    def __init__(
        self,
        encoded: TokenizedDataset,
        *,
        seed: int,
        items: int | None = None,
        tokens: int | None = None,
        grouped: bool = False,
    ) -> None:
        require((items is None) != (tokens is None), f"Give items or tokens per batch, not {items} and {tokens}.")
        self._size = items or tokens or 0
        require(self._size > 0, f"A batch of {self._size} is empty; give 1 or more.")
        require(len(encoded) > 0, "There are no examples to train on.")
        self.encoded, self._seed, self._grouped = encoded, seed, grouped
        self._lengths = encoded.lengths()
        self._cost = np.ones_like(self._lengths) if items is not None else self._lengths
        self._starts = [0]  # first batch of each epoch that was asked for
        self._plan: tuple[int, list[Ints]] | None = None

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""
        return self.encoded.batch(self.items(index))

    def items(self, index: int) -> Ints:
        """Say which items batch number `index` holds."""
        epoch = self._epoch(index)
        return self._batches(epoch)[index - self._starts[epoch]]

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs are."""
        require(epochs >= 0, f"{epochs} epochs cannot be counted; give 0 or more.")
        whole = int(epochs)
        part = epochs - whole
        return self._start(whole) + (round(part * (self._start(whole + 1) - self._start(whole))) if part else 0)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        epoch = self._epoch(index)
        return epoch + (index - self._starts[epoch]) / (self._start(epoch + 1) - self._starts[epoch])

    def _epoch(self, index: int) -> int:
        require(index >= 0, f"There is no batch {index}; they are counted from 0.", BadConfig)
        epoch = bisect_right(self._starts, index) - 1
        while self._start(epoch + 1) <= index:
            epoch += 1
        return epoch

    def _start(self, epoch: int) -> int:
        # how many batches a budget of tokens makes depends on the order, so epochs are counted one by one;
        # a new list each time, because another thread may be making batches
        starts = self._starts
        while len(starts) <= epoch:
            starts = [*starts, starts[-1] + len(self._batches(len(starts) - 1))]
            self._starts = starts
        return starts[epoch]

    def _batches(self, epoch: int) -> list[Ints]:
        plan = self._plan
        if plan is None or plan[0] != epoch:
            plan = self._plan = epoch, self._make(epoch)
        return plan[1]

    def _make(self, epoch: int) -> list[Ints]:
        shuffled = order(len(self.encoded), self._seed, epoch)
        if not self._grouped:
            return _sorted_inside(cut_by_cost(shuffled, self._cost, self._size), self._lengths)
        pool = np.cumsum(self._cost[shuffled]) // (_POOL * self._size)
        batches = cut_by_cost(shuffled[np.lexsort((-self._lengths[shuffled], pool))], self._cost, self._size)
        return [batches[i] for i in rng(Stream.BATCH_ORDER, self._seed, epoch).permutation(len(batches))]


def _sorted_inside(batches: list[Ints], lengths: Ints) -> list[Ints]:
    """Order each batch by length, which changes no loss: neighbours of equal length share an attention call."""
    items = np.concatenate(batches)
    sizes = [len(batch) for batch in batches]
    within = np.lexsort((-lengths[items], np.repeat(np.arange(len(batches)), sizes)))
    return np.split(items[within], np.cumsum(sizes)[:-1])
