"""Pairs of text segments for pre-training: does the second follow the first (BERT), or were they swapped (ALBERT)?"""

# B pairs · N packed tokens

from functools import lru_cache
from typing import Literal

import numpy as np
import torch

from clearhead.data.batch import Batch
from clearhead.data.shards import Ints, Shards, spread
from clearhead.data.source import order, rng
from clearhead.data.wrapping import Runs, require_same, wrap
from clearhead.errors import BadInput, require
from clearhead.nn.layout import Packed
from clearhead.text.tokenizer import Tokenizer

TARGETS = {"next": "next_sentence", "order": "sentence_order"}
NO_PAIR = -100  # the target of a text alone
_DRAW = 1  # keeps the draws of a batch apart from the order of an epoch


class SentencePairs:
    """Stretches of neighbouring sentences of about `length` tokens, parted in two at a sentence drawn anew each time.

    One in two pairs is false: kind "next" takes the second segment from another document, kind "order" swaps the two.
    All batches have the same number of pairs, on average `tokens` tokens. Documents of one sentence give no pair.
    A share `singles` of them are one text instead, cut anywhere: short texts and unfinished sentences are met, too.
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        kind: Literal["next", "order"] = "next",
        tokens: int = 65_536,
        length: int = 512,
        singles: float = 0.0,
        seed: int = 0,
        split: str = "train",
        held_out: float = 0.005,
    ) -> None:
        require_same(shards, tokenizer)
        require(kind in TARGETS, f"There are no pairs of kind {kind!r}; choose {' or '.join(TARGETS)}.", BadInput)
        self._shards = shards
        require(0 <= singles < 1, f"singles is a share in [0, 1), got {singles}", BadInput)
        self._kind = kind
        self._singles = singles
        self._seed = seed
        self._template = tokenizer.template
        specials = tokenizer.template.specials(pair=True)
        self._room = length - specials
        require(self._room > 1, f"Pairs of {length} tokens have no room beside {specials} special ones.", BadInput)
        documents = shards.split(split, held_out)
        self._first, self._end = shards.documents[documents], shards.documents[documents + 1]
        self._owner, self._from, self._to = self._stretches()
        enough = len(self._from) > 0 and (kind == "order" or len(documents) > 1)
        require(enough, f"The {len(documents)} documents of the split {split!r} are too few for pairs.", BadInput)
        starts = shards.sentences
        text = np.minimum(starts[self._to] - starts[self._from], self._room).mean()
        typical = text * (1 - singles / 2) + specials  # a single one is half as long, on average
        self._pairs = max(int(tokens / typical), 1)
        self._order = lru_cache(maxsize=2)(lambda epoch: order(len(self._from), seed, epoch))

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        draw = rng(self._seed, index, _DRAW)
        epochs, places = np.divmod(np.arange(index * self._pairs, (index + 1) * self._pairs), len(self._from))
        chosen = np.concatenate([self._order(int(epoch))[places[epochs == epoch]] for epoch in np.unique(epochs)])
        begin, stop = self._from[chosen], self._to[chosen]
        middle = draw.integers(begin + 1, stop)
        false = draw.random(self._pairs) < 0.5
        swapped = false & (self._kind == "order")
        other, other_stop = self._elsewhere(draw, self._owner[chosen], begin, middle, stop)
        second = np.where(false & ~swapped, other, middle), np.where(false & ~swapped, other_stop, stop)
        left, right = self._runs(begin, middle), self._runs(*second)
        first_runs = np.where(swapped, right[0], left[0]), np.where(swapped, right[1], left[1])
        second_runs = np.where(swapped, left[0], right[0]), np.where(swapped, left[1], right[1])
        alone = draw.random(self._pairs) < self._singles
        texts = [(start[~alone], size[~alone]) for start, size in shorten(first_runs, second_runs, self._room)]
        pairs = wrap(self._shards, self._template.pair, texts)
        lone = wrap(self._shards, self._template.single, [self._cut(draw, begin[alone], stop[alone])])
        ids, segments, lengths = (np.concatenate(both) for both in zip(pairs, lone, strict=True))
        labels = np.append(false[~alone].astype(np.int64), np.full(alone.sum(), NO_PAIR))
        targets = {TARGETS[self._kind]: torch.from_numpy(labels)}
        return Batch(torch.from_numpy(ids), Packed.of(lengths.tolist()), torch.from_numpy(segments), targets)

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs fill, at least one."""
        return max(int(epochs * len(self._from) / self._pairs), 1)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return index * self._pairs / len(self._from)

    def _stretches(self) -> tuple[Ints, Ints, Ints]:
        """Document, first sentence and end of each stretch.

        One begins with the first sentence in every `room` tokens of a document and goes on until `room` is filled.
        """
        starts = self._shards.sentences
        counts = self._end - self._first
        owner = np.repeat(np.arange(len(counts)), counts)
        sentence = np.repeat(self._first, counts) + spread(counts)
        cell = (starts[sentence] - starts[self._first[owner]]) // self._room
        opens = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(cell, prepend=-1))
        owner, begin = owner[opens], sentence[opens]
        stop = np.maximum(np.searchsorted(starts, starts[begin] + self._room), begin + 2)
        stop = np.minimum(stop, self._end[owner])
        several = stop - begin > 1
        return owner[several], begin[several], stop[several]

    def _elsewhere(
        self, draw: np.random.Generator, owner: Ints, begin: Ints, middle: Ints, stop: Ints
    ) -> tuple[Ints, Ints]:
        """Sentences of a random other document, about as long as the true second segments."""
        if self._kind == "order":
            return middle, stop
        starts = self._shards.sentences
        document = draw.integers(0, len(self._first) - 1, len(owner))
        document += document >= owner
        other = draw.integers(self._first[document], self._end[document])
        wanted = np.minimum(starts[stop] - starts[begin], self._room) - (starts[middle] - starts[begin])
        other_stop = np.searchsorted(starts, starts[other] + np.maximum(wanted, 1))
        return other, np.minimum(other_stop, self._end[document])

    def _cut(self, draw: np.random.Generator, begin: Ints, stop: Ints) -> Runs:
        """One text out of each stretch, from its first sentence on and of any length."""
        first, size = self._runs(begin, stop)
        return first, draw.integers(1, np.minimum(size, self._room) + 1)

    def _runs(self, begin: Ints, stop: Ints) -> Runs:
        starts = self._shards.sentences
        return starts[begin], starts[stop] - starts[begin]


def shorten(first: Runs, second: Runs, room: int) -> tuple[Runs, Runs]:
    """Cut the longer of two segments until both fit: the first at its front, the second at its end.

    So what stands beside the other segment stays, whether the pair is true or false.
    """
    half = room // 2
    a = np.where(second[1] <= half, room - second[1], room - half)
    a = np.minimum(first[1], a)
    return (first[0] + first[1] - a, a), (second[0], np.minimum(second[1], room - a))
