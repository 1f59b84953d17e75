"""Order and randomness as pure functions of (seed, epoch, index), so that a loader's state is one integer."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batch import Batch


class Source(Protocol):
    """An endless row of batches: epochs follow one another, each in an order of its own."""

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs are."""

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""


class Derived:
    """What sources that make their batches of another source's have in common: they are as many."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs are."""
        return self.source.batches_in(epochs)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return self.source.epoch_of(index)


def rng(seed: int, *place: int) -> np.random.Generator:
    """Give the random numbers that belong to one place, such as (epoch, index): the same on every machine."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *place])))


def order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Give the order in which an epoch goes through `count` examples."""
    return rng(seed, epoch).permutation(count)
