"""Examples tokenised once, end to end in a few arrays, so that making a batch is only a gather."""

# N tokens of all sequences · S sequences · E items, which are shuffled: texts, windows, pairs, questions with choices

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batch import Batch
from clearhead.nn.layout import Packed
from clearhead.text.template import Special, Template
from clearhead.text.tokenizer import Tokenizer

Arrays = Mapping[str, NDArray[Any]]
_BLOCK = 2048  # texts at a time, since what the library makes of each is larger than its ids


@dataclass(frozen=True)
class Encoded:
    """Sequences, what is to be learnt of each item and of each token, and which sequences an item is made of.

    `members` (E, W) has -1 where an item has fewer than W sequences. A batch holds its items one after another, or,
    `by_column`, first the first sequences of all items, then all second ones.
    """

    ids: NDArray[np.int32]  # (N,)
    offsets: NDArray[np.int64]  # (S + 1,)
    segments: NDArray[np.int8] | None  # (N,)
    members: NDArray[np.int64]  # (E, W)
    targets: Arrays = field(default_factory=dict)  # (E, …)
    token_targets: Arrays = field(default_factory=dict)  # (N,)
    by_column: bool = False

    def __len__(self) -> int:
        return len(self.members)

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return len(self.ids)

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each item, (E,)."""
        lengths = np.append(np.diff(self.offsets), 0)  # a missing member, -1, finds the 0
        return lengths[self.members].sum(1)

    def sequences(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which sequences these items are made of, in the order of a batch."""
        rows = self.members[items]
        found = (rows.T if self.by_column else rows).ravel()
        return found if rows.shape[1] == 1 else found[found >= 0]

    def places(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the tokens of these sequences lie, one after another."""
        starts = self.offsets[sequences]
        lengths = self.offsets[sequences + 1] - starts
        before = np.cumsum(lengths) - lengths
        return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)

    def batch(self, items: NDArray[np.int64]) -> Batch:
        """Gather these items, packed."""
        sequences = self.sequences(items)
        places = self.places(sequences)
        starts = self.offsets[sequences]
        lengths = self.offsets[sequences + 1] - starts
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        positions = places - np.repeat(starts, lengths)
        host = lengths.tolist()
        layout = Packed(tuple(host), torch.from_numpy(offsets), torch.from_numpy(positions), max(host, default=0))
        targets = {name: torch.from_numpy(values[items]) for name, values in self.targets.items()}
        targets |= {name: torch.from_numpy(values[places]) for name, values in self.token_targets.items()}
        segments = None if self.segments is None else torch.from_numpy(self.segments[places]).long()
        return Batch(torch.from_numpy(self.ids[places]).long(), layout, segments, targets)


class Writer:
    """Puts the special tokens round texts and lays the sequences end to end."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._ids = array("i")
        self._segments: list[int] = []
        self._runs: list[int] = []
        self._ends: list[int] = [0]

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
        place = 0
        for item in self._template.single if second is None else self._template.pair:
            if isinstance(item, Special):
                self._ids.append(item.id)
                run = 1
            else:
                text = first if item.part == 0 or second is None else second
                place = len(self._ids) - self._ends[-1]
                self._ids.extend(text)
                run = len(text)
            if capitals is None or isinstance(item, Special):
                self._segments.append(item.segment if capitals is None else 0)
                self._runs.append(run)
            else:
                self._segments.extend(capitals[item.part])
                self._runs.extend([1] * run)
        self._ends.append(len(self._ids))
        return place

    def done(
        self,
        *,
        members: NDArray[np.int64] | None = None,
        targets: Arrays | None = None,
        token_targets: Arrays | None = None,
        by_column: bool = False,
    ) -> Encoded:
        """Close the arrays; without `members`, every sequence is an item. Segments that are all 0 need no array."""
        ids = np.frombuffer(self._ids, dtype=np.int32) if self._ids else np.zeros(0, dtype=np.int32)
        segments = np.repeat(np.array(self._segments, dtype=np.int8), self._runs) if any(self._segments) else None
        if members is None:
            members = np.arange(len(self._ends) - 1).reshape(-1, 1)
        offsets = np.array(self._ends, dtype=np.int64)
        return Encoded(ids, offsets, segments, members, targets or {}, token_targets or {}, by_column)


def ids_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise many texts, without special tokens."""
    found: list[list[int]] = []
    for start in range(0, len(texts), _BLOCK):
        found += tokenizer.ids_batch(texts[start : start + _BLOCK])
    return found


def ids_and_capitals(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[list[list[int]], list[list[int]] | None]:
    """The same, and the kind of capitals of each piece if the tokenizer tells them."""
    if not tokenizer.tells_capitals:
        return ids_of(tokenizer, texts), None
    ids: list[list[int]] = []
    capitals: list[list[int]] = []
    for start in range(0, len(texts), _BLOCK):
        for pieces in tokenizer.pieces_batch(texts[start : start + _BLOCK]):
            ids.append(pieces.ids)
            capitals.append(pieces.capitals or [])
    return ids, capitals
