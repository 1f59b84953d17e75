"""What a model reads at once: packed sequences with their targets; and the cutting of many inputs into batches."""

# B sequences · N packed tokens

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.nn.layout import Packed
from clearhead.text.packed import Sequences

IGNORE_INDEX = -100  # the target where nothing is to be learnt, as PyTorch's cross-entropy has it

Ints = NDArray[np.int64]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Batch:
    """Packed sequences and the targets of an objective, by name.

    Where a sequence is written from another, `source` holds those others, one for each, in the same order.
    """

    ids: Tensor  # (N,)
    layout: Packed
    segments: Tensor | None = None  # (N,)
    targets: dict[str, Tensor] = field(default_factory=dict)
    source: Self | None = None

    @classmethod
    def of(
        cls,
        sequences: Sequence[Sequence[int]],
        segments: Sequence[Sequence[int]] | None = None,
        targets: Mapping[str, Tensor] | None = None,
    ) -> Self:
        """Pack sequences of ids, and their segments, end to end."""
        return cls(
            torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.int64),
            Packed.of([len(sequence) for sequence in sequences]),
            None if segments is None else torch.tensor([s for sequence in segments for s in sequence]),
            dict(targets or {}),
        )

    @classmethod
    def gather(cls, sequences: Sequences, chosen: Ints) -> Self:
        """Pack some of many inputs."""
        taken = sequences.take(chosen)
        # all tokens in the first segment is what models take for granted, and spares them the look-up
        segments = None if taken.segments is None or not taken.segments.any() else torch.from_numpy(taken.segments)
        return cls(torch.from_numpy(taken.ids), Packed.of(taken.lengths), segments)

    @property
    def tokens(self) -> int:
        """How many tokens there are, without those of the source."""
        return self.ids.shape[0]

    def twice(self) -> Self:
        """Every sequence, and all of them once more, with their sources; targets by name are not repeated."""
        source = None if self.source is None else self.source.twice()
        segments = None if self.segments is None else self.segments.repeat(2)
        return replace(
            self, ids=self.ids.repeat(2), layout=self.layout.twice(), segments=segments, targets={}, source=source
        )

    def to(self, device: torch.device | str) -> Self:
        """Move everything to a device, without waiting for it."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply a function to every tensor."""
        layout = self.layout
        return replace(
            self,
            ids=function(self.ids),
            layout=replace(layout, offsets=function(layout.offsets), positions=function(layout.positions)),
            segments=None if self.segments is None else function(self.segments),
            targets={name: function(target) for name, target in self.targets.items()},
            source=None if self.source is None else self.source.map(function),
        )


def group_by_length(lengths: Sequence[int] | Ints, max_tokens: int) -> list[Ints]:
    """Indices, longest first, in groups of at most `max_tokens`, or of a single longer input.

    Neighbours have equal or nearly equal length, which the packed layout turns into few attention calls.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    return cut_by_cost(np.argsort(-lengths, kind="stable"), lengths, max_tokens)


def cut_by_cost(order: Ints, costs: Ints, limit: int) -> list[Ints]:
    """Cut an order of indices wherever the next one would bring the cost of a group above `limit`."""
    total = np.cumsum(costs[order])
    groups: list[Ints] = []
    start = 0
    while start < len(order):
        before = total[start - 1] if start else 0
        stop = max(int(np.searchsorted(total, before + limit, side="right")), start + 1)
        groups.append(order[start:stop])
        start = stop
    return groups


def chunks(items: Iterable[Item], size: int, weigh: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """Give lists that weigh `size` or, by their last item, more."""
    chunk: list[Item] = []
    weight = 0
    for item in items:
        chunk.append(item)
        weight += weigh(item)
        if weight >= size:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk
