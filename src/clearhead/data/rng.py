"""Order and randomness as pure functions of (stream, seed, epoch or index), so that a loader's state is one integer."""

from enum import IntEnum, unique
from typing import Protocol

import numpy as np

from clearhead.data.batch import Batch, Ints


class BatchSource(Protocol):
    """An endless row of batches: epochs follow one another, each in an order of its own."""

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs are."""

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""


class DerivedBatches:
    """Batches that are made of another source's, one of each."""

    def __init__(self, source: BatchSource) -> None:
        self.source = source

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs are."""
        return self.source.batches_in(epochs)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return self.source.epoch_of(index)


class EqualBatches:
    """Batches of one size (of tokens or examples), cut out of epochs that lie end to end."""

    def __init__(self, epoch_size: int, batch_size: int) -> None:
        self._epoch_size, self._batch_size = epoch_size, batch_size

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs fill, at least one."""
        return max(int(epochs * self._epoch_size / self._batch_size), 1)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return index * self._batch_size / self._epoch_size


class Phases:
    """Batches of one source in the first `share` of a run, and of another in the rest; epochs are the second's.

    The loop asks by its progress, which may be the clock's: no number of a batch says which source it is of.
    """

    def __init__(self, early: BatchSource, late: BatchSource, share: float) -> None:
        self._early, self._late, self._share = early, late, share
        self.batch, self.batches_in, self.epoch_of = late.batch, late.batches_in, late.epoch_of

    def at(self, progress: float) -> BatchSource:
        """The source of a run that is so far."""
        return self._early if progress < self._share else self._late


DATA_ORDER = 2  # version of all draws together: a run goes on only in the order that it began with


@unique
class Stream(IntEnum):
    """What random numbers are for. A number belongs to its stream for ever: a new stream takes a new one."""

    EVALUATION = 0  # has no seed: an evaluation is always the same
    EPOCH_ORDER = 1
    BATCH_ORDER = 2  # where batches hold examples of like length
    VALIDATION_SPLIT = 3
    SHORT_SEQUENCES = 4
    SENTENCE_PAIRS = 5
    MASKING = 6
    PERMUTATION = 7
    SPAN_CORRUPTION = 8
    WORD_WINDOWS = 9
    DROPOUT = 10
    SEARCH = 11  # of hyper-parameters
    BOOTSTRAP = 12
    FOLDS = 13


def rng(stream: Stream, *place: int) -> np.random.Generator:
    """Give the random numbers of one place in a stream, such as (seed, index): the same on every machine."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([stream, *place])))


def order(count: int, seed: int, epoch: int) -> Ints:
    """Give the order in which an epoch goes through `count` examples."""
    return rng(Stream.EPOCH_ORDER, seed, epoch).permutation(count)
