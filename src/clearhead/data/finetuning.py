"""The order in which fine-tuning sees its examples, and evaluation too: batches by number of items or of tokens."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.data.encoded import Encoded
from clearhead.data.source import order, rng
from clearhead.errors import BadConfig, require

Items = NDArray[np.int64]
_POOL = 50  # batches that are sorted together when lengths are grouped: alike inside, still mixed over the epoch


class FineTuning:
    """A source (see `data.source`) of shuffled examples, `items` or at most `tokens` to a batch.

    An item longer than `tokens` is a batch of its own. `grouped` puts items of like length together, which the
    attention of a CPU likes; batches come in random order all the same.
    """

    def __init__(
        self,
        encoded: Encoded,
        *,
        seed: int,
        items: int | None = None,
        tokens: int | None = None,
        grouped: bool = False,
    ) -> None:
        require((items is None) != (tokens is None), f"Give items or tokens per batch, not {items} and {tokens}.")
        size = items or tokens or 0
        require(size > 0, f"A batch of {size} is empty; give 1 or more.")
        require(len(encoded) > 0, "There are no examples to train on.")
        self.encoded = encoded
        self._seed = seed
        self._grouped = grouped
        self._lengths = encoded.lengths()
        self._cost = np.ones_like(self._lengths) if items is not None else self._lengths
        self._size = size
        self._starts = [0]  # first batch of each epoch that was asked for
        self._plan: tuple[int, list[Items]] | None = None

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""
        return self.encoded.batch(self.items(index))

    def items(self, index: int) -> Items:
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

    def _batches(self, epoch: int) -> list[Items]:
        plan = self._plan
        if plan is None or plan[0] != epoch:
            plan = self._plan = epoch, self._make(epoch)
        return plan[1]

    def _make(self, epoch: int) -> list[Items]:
        shuffled = order(len(self.encoded), self._seed, epoch)
        if not self._grouped:
            return _sorted_inside(_cut(shuffled, self._cost, self._size), self._lengths)
        pool = np.cumsum(self._cost[shuffled]) // (_POOL * self._size)
        batches = _cut(shuffled[np.lexsort((-self._lengths[shuffled], pool))], self._cost, self._size)
        # another place than the one `order` draws from
        return [batches[i] for i in rng(self._seed, epoch, 1).permutation(len(batches))]


class InOrder:
    """All items once, longest first, and the way back: what a model says of each token is put in the first order."""

    def __init__(self, encoded: Encoded, *, tokens: int = 16_384) -> None:
        require(tokens > 0, f"A batch of {tokens} tokens is empty; give 1 or more.")
        lengths = encoded.lengths()
        self.encoded = encoded
        self._batches = _cut(np.argsort(-lengths, kind="stable"), lengths, tokens)

    def __iter__(self) -> Iterator[Batch]:
        return map(self.encoded.batch, self._batches)

    def tokens(self, outputs: Sequence[Tensor]) -> Tensor:
        """Put back one row per token: (N, …), in the order of `encoded.ids`."""
        given = torch.cat(list(outputs)).cpu()
        places = np.concatenate([self.encoded.places(self.encoded.sequences(items)) for items in self._batches])
        require(len(given) == len(places), f"{len(given)} rows cannot be put back in {len(places)} places.")
        found = torch.empty_like(given)
        found[torch.from_numpy(places)] = given
        return found


def _cut(items: Items, cost: NDArray[np.int64], size: int) -> list[Items]:
    """Cut a row of items where the next one would cost more than `size`."""
    total = np.cumsum(cost[items])
    found: list[Items] = []
    start = 0
    while start < len(items):
        before = total[start - 1] if start else 0
        stop = max(int(np.searchsorted(total, before + size, side="right")), start + 1)
        found.append(items[start:stop])
        start = stop
    return found


def _sorted_inside(batches: list[Items], lengths: NDArray[np.int64]) -> list[Items]:
    """Order each batch by length, which changes no loss: neighbours of equal length share an attention call."""
    items = np.concatenate(batches)
    sizes = [len(batch) for batch in batches]
    within = np.lexsort((-lengths[items], np.repeat(np.arange(len(batches)), sizes)))
    return np.split(items[within], np.cumsum(sizes)[:-1])
