"""Plain text for pre-training: packed sequences, running text for language models, sentence pairs."""

# N packed tokens

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import IGNORE_INDEX, Batch, Ints
from clearhead.data.rng import DerivedBatches, EqualBatches, Stream, order, rng
from clearhead.data.shards import Runs, Shards, check_tokenizer, positions_within, wrap
from clearhead.errors import BadInput, require
from clearhead.nn.layout import Packed
from clearhead.text.tokenizer import Tokenizer

SHORT = 0.1  # share of the sequences that are cut in two, as BERT's own data had short ones


class _Row(EqualBatches, ABC):
    """Runs of a split's tokens, shuffled anew in each epoch, all epochs in one row; batch i is its i-th `tokens`."""

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        tokens: int = 65_536,
        length: int = 512,
        seed: int = 0,
        split: str = "train",
        validation_share: float = 0.005,
    ) -> None:
        check_tokenizer(shards, tokenizer)
        require(tokens >= length, f"Batches of {tokens} tokens cannot hold sequences of {length}.", BadInput)
        self.tokens, self.length = tokens, length
        self._shards = shards
        runs, self._specials = self._cut(tokenizer, shards.split(split, validation_share), seed)
        self._starts, self._lengths = runs
        super().__init__(int(self._lengths.sum()) + self._specials * len(self._lengths), self.tokens)
        self._epoch = lru_cache(maxsize=2)(lambda epoch: self._lay_out(order(len(self._starts), seed, epoch)))

    @abstractmethod
    def _cut(self, tokenizer: Tokenizer, documents: Ints, seed: int) -> tuple[Runs, int]:
        """Say which runs the documents give, and how many special tokens each has round it."""

    def _lay_out(self, runs: Ints) -> tuple[Ints, Ints]:
        return runs, np.cumsum(self._lengths[runs] + self._specials)

    def _between(self, start: int, stop: int) -> Iterator[tuple[Ints, Ints, int, int]]:
        """The runs on places `start` to `stop` of the row, epoch by epoch: numbers, ends, and places in the epoch."""
        while start < stop:
            epoch, first = divmod(start, self._epoch_size)
            last = min(first + stop - start, self._epoch_size)
            runs, ends = self._epoch(epoch)
            chosen = slice(np.searchsorted(ends, first, "right"), np.searchsorted(ends, last, "left") + 1)
            yield runs[chosen], ends[chosen], first, last
            start += last - first


class PackedText(_Row):
    """Documents cut into sequences of at most `length` tokens with the special tokens, every batch of exactly `tokens`.

    All sequences of an epoch, in its order, form one row that is cut every `tokens`. A sequence on a cut becomes one
    at the end of a batch and one at the start of the next; the special tokens at the cut take the place of as many
    tokens of text, which is all that is lost. What a cut leaves of a sequence may be special tokens alone. One sequence
    in ten (`short`) is cut in two anywhere, because texts to be fine-tuned on are short.
    """

    def __init__(self, shards: Shards, tokenizer: Tokenizer, *, short: float = SHORT, **sizes: Any) -> None:
        _check_share("short", short)
        self._short = short
        super().__init__(shards, tokenizer, **sizes)

    def _cut(self, tokenizer: Tokenizer, documents: Ints, seed: int) -> tuple[Runs, int]:
        specials = tokenizer.template.specials(pair=False)
        room = self.length - specials
        require(room > 0, f"Sequences of {self.length} tokens have no room beside {specials} special ones.", BadInput)
        self._layout = tokenizer.template.single
        return _cut_some_in_two(*_pieces(self._shards, documents, room), self._short, seed), specials

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        starts, lengths = [], []
        before = after = 0  # special tokens that the cuts leave out
        for runs, ends, first, last in self._between(index * self.tokens, (index + 1) * self.tokens):
            start, length = self._starts[runs], self._lengths[runs]
            if (left := int(ends[0] - first)) < length[0] + self._specials:
                kept = max(left - self._specials, 0)
                start[0] += length[0] - kept
                length[0], before = kept, max(self._specials - left, 0)
            if over := int(ends[-1] - last):
                left = length[-1] + self._specials - over
                length[-1], after = max(left - self._specials, 0), max(self._specials - left, 0)
            starts.append(start)
            lengths.append(length)
        ids, _, sizes = wrap(self._shards, self._layout, [(np.concatenate(starts), np.concatenate(lengths))])
        sizes[0] -= before
        sizes[-1] -= after
        return Batch(torch.from_numpy(ids[before : len(ids) - after]), Packed.of(sizes.tolist()))


def _pieces(shards: Shards, documents: Ints, room: int) -> tuple[Ints, Ints]:
    """Cut documents every `room` tokens: where each piece starts among the tokens, and how long it is."""
    first, end = shards.document_starts[documents], shards.document_starts[documents + 1]
    counts = -(-(end - first) // room)
    starts = np.repeat(first, counts) + positions_within(counts) * room
    return starts, np.minimum(np.repeat(end, counts) - starts, room)


def _check_share(name: str, share: float) -> None:
    require(0 <= share < 1, f"{name} is a share in [0, 1), got {share}", BadInput)


def _cut_some_in_two(starts: Ints, lengths: Ints, share: float, seed: int) -> tuple[Ints, Ints]:
    """Cut a share of the pieces of more than one token, drawn at random, in two at a random place."""
    draw = rng(Stream.SHORT_SEQUENCES, seed)
    cut = np.flatnonzero((draw.random(len(starts)) < share) & (lengths > 1))
    front = draw.integers(1, lengths[cut])
    kept = lengths.copy()
    kept[cut] = front
    return np.insert(starts, cut + 1, starts[cut] + front), np.insert(kept, cut + 1, lengths[cut] - front)


class RunningText(_Row):
    """Sequences of exactly `length` tokens, with target `next` (N,): the token after each, of the last one too.

    Documents follow one another in the order of the epoch, each with the tokens that the tokenizer puts round a text;
    where it puts none after it, as GPT-2's, the end token stands between two. Nothing is lost at a cut.
    """

    def _cut(self, tokenizer: Tokenizer, documents: Ints, seed: int) -> tuple[Runs, int]:
        require(self.length >= 1, f"Sequences of {self.length} tokens are empty; give 1 or more.", BadInput)
        self.tokens -= self.tokens % self.length
        self._before, self._after = document_boundaries(tokenizer)
        starts = self._shards.document_starts[documents]
        runs = starts, self._shards.document_starts[documents + 1] - starts
        return runs, len(self._before) + len(self._after)

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        parts = self._between(index * self.tokens, (index + 1) * self.tokens + 1)
        row = np.concatenate([self._read(*part) for part in parts])
        layout = Packed.of([self.length] * (self.tokens // self.length))
        return Batch(torch.from_numpy(row[:-1]), layout, targets={"next": torch.from_numpy(row[1:])})

    def _read(self, documents: Ints, ends: Ints, start: int, stop: int) -> Ints:
        lengths = self._lengths[documents]
        text = ends - len(self._after) - lengths  # where the words of each document begin in the epoch
        first, last = (np.clip(edge - text, 0, lengths) for edge in (start, stop))
        row = np.full(stop - start, -1, dtype=np.int64)
        specials = [(text - len(self._before) + i, token) for i, token in enumerate(self._before)]
        specials += [(text + lengths + i, token) for i, token in enumerate(self._after)]
        for places, token in specials:
            row[places[(places >= start) & (places < stop)] - start] = token
        row[row < 0] = self._shards.gather(self._starts[documents] + first, last - first)
        return row


def document_boundaries(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens before and after a document; there is always one after it."""
    before, after = tokenizer.template.around_text
    return before, after or (tokenizer.sep_id,)


class NeighbourTargets(DerivedBatches):
    """Another source's batches, with targets `next` (N,) and `previous` (N,): the neighbours in the same sequence."""

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        return with_neighbours(self.source.batch(index))


def with_neighbours(batch: Batch) -> Batch:
    """Add the targets `next` and `previous` to a batch; before the first token of a sequence there is none."""
    previous = batch.ids.roll(1).masked_fill(batch.layout.positions == 0, IGNORE_INDEX)
    targets = {"next": next_tokens(batch.ids, batch.layout), "previous": previous}
    return replace(batch, targets={**batch.targets, **targets})


def next_tokens(ids: Tensor, layout: Packed) -> Tensor:
    """Give the token after each, (N,); after the last of a sequence there is none."""
    first = torch.cat((layout.positions == 0, layout.positions.new_ones(1, dtype=torch.bool)))
    return ids.roll(-1).masked_fill(first[1:], IGNORE_INDEX)


TARGETS = {"next": "next_sentence", "order": "sentence_order"}


class SentencePairs(EqualBatches):
    """Stretches of neighbouring sentences of about `length` tokens, parted in two at a sentence drawn anew each time.

    One in two pairs is false: kind "next" takes the second segment from another document, kind "order" swaps the two.
    All batches have the same number of pairs, on average `tokens` tokens. Documents of one sentence give no pair.
    A share `singles` of them are one text instead, cut anywhere: short texts and unfinished sentences are met, too.
    A share `short` of the pairs is cut to a length drawn at random. With `duplicates`, that many pairs are made of each
    stretch, once, and epochs take them in turn, as BERT's and ALBERT's data sets have them.
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
        short: float = 0.0,
        duplicates: int | None = None,
        seed: int = 0,
        split: str = "train",
        validation_share: float = 0.005,
    ) -> None:
        check_tokenizer(shards, tokenizer)
        require(kind in TARGETS, f"There are no pairs of kind {kind!r}; choose {' or '.join(TARGETS)}.", BadInput)
        _check_share("singles", singles)
        _check_share("short", short)
        self._shards, self._template = shards, tokenizer.template
        self._kind, self._singles, self._short, self._seed = kind, singles, short, seed
        specials = tokenizer.template.specials(pair=True)
        self._room = length - specials
        require(self._room > 1, f"Pairs of {length} tokens have no room beside {specials} special ones.", BadInput)
        documents = shards.split(split, validation_share)
        self._first, self._end = shards.documents[documents], shards.documents[documents + 1]
        self._owner, self._from, self._to = self._stretches()
        enough = len(self._from) > 0 and (kind == "order" or len(documents) > 1)
        require(enough, f"The {len(documents)} documents of the split {split!r} are too few for pairs.", BadInput)
        starts = shards.sentences
        text = np.minimum(starts[self._to] - starts[self._from], self._room).mean()
        typical = text * (1 - singles / 2) + specials  # a single one is half as long, on average
        self._pairs = max(int(tokens / typical), 1)
        super().__init__(len(self._from), self._pairs)
        self._order = lru_cache(maxsize=2)(lambda epoch: order(len(self._from), seed, epoch))
        self._duplicates = duplicates
        everything = np.arange(len(self._from))
        self._duplicate = lru_cache(maxsize=2)(
            lambda number: self._draw(rng(Stream.SENTENCE_PAIRS, seed, number), everything)
        )

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        epochs, places = np.divmod(np.arange(index * self._pairs, (index + 1) * self._pairs), len(self._from))
        by_epoch = [(int(epoch), self._order(int(epoch))[places[epochs == epoch]]) for epoch in np.unique(epochs)]
        if self._duplicates is None:
            chosen = np.concatenate([stretches for _, stretches in by_epoch])
            drawn = self._draw(rng(Stream.SENTENCE_PAIRS, self._seed, index), chosen)
        else:
            made = [self._duplicate(epoch % self._duplicates)[:, stretches] for epoch, stretches in by_epoch]
            drawn = np.concatenate(made, axis=1)
        *parts, false, single = drawn
        alone = single.astype(bool)
        first, second, text = zip(parts[0::2], parts[1::2], strict=True)
        pairs = wrap(
            self._shards, self._template.pair, [(start[~alone], size[~alone]) for start, size in (first, second)]
        )
        lone = wrap(self._shards, self._template.single, [(text[0][alone], text[1][alone])])
        ids, segments, lengths = (np.concatenate(both) for both in zip(pairs, lone, strict=True))
        labels = np.append(false[~alone], np.full(alone.sum(), IGNORE_INDEX))
        targets = {TARGETS[self._kind]: torch.from_numpy(labels)}
        return Batch(torch.from_numpy(ids), Packed.of(lengths.tolist()), torch.from_numpy(segments), targets)

    def _draw(self, draw: np.random.Generator, chosen: Ints) -> Ints:
        """Make a pair of each of these stretches, or one text of it: (8, n).

        The rows are where the first segment, the second and the text alone start and how long each is, whether the
        pair is false, and whether the text stands alone.
        """
        begin, stop = self._from[chosen], self._to[chosen]
        middle = draw.integers(begin + 1, stop)
        false = draw.random(len(chosen)) < 0.5
        first, second = self._runs(begin, middle), self._runs(middle, stop)
        if self._kind == "order":
            first, second = _pick(false, second, first), _pick(false, first, second)
        else:
            elsewhere = self._elsewhere(draw, self._owner[chosen], begin, middle, stop)
            second = _pick(false, self._runs(*elsewhere), second)
        alone = draw.random(len(chosen)) < self._singles
        text, size = self._runs(begin, stop)
        # one text goes from the first sentence on, to anywhere
        size[alone] = draw.integers(1, np.minimum(size[alone], self._room) + 1)
        room = np.full(len(chosen), self._room)
        if self._short:
            shorter = draw.random(len(chosen)) < self._short
            room[shorter] = draw.integers(2, self._room + 1, int(shorter.sum()))
        first, second = shorten(first, second, room)
        return np.stack([*first, *second, text, size, false, alone])

    def _stretches(self) -> tuple[Ints, Ints, Ints]:
        """Document, first sentence and end of each stretch.

        One begins with the first sentence in every `room` tokens of a document and goes on until `room` is filled.
        """
        starts = self._shards.sentences
        counts = self._end - self._first
        owner = np.repeat(np.arange(len(counts)), counts)
        sentence = np.repeat(self._first, counts) + positions_within(counts)
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
        starts = self._shards.sentences
        document = draw.integers(0, len(self._first) - 1, len(owner))
        document += document >= owner
        other = draw.integers(self._first[document], self._end[document])
        wanted = np.minimum(starts[stop] - starts[begin], self._room) - (starts[middle] - starts[begin])
        other_stop = np.searchsorted(starts, starts[other] + np.maximum(wanted, 1))
        return other, np.minimum(other_stop, self._end[document])

    def _runs(self, begin: Ints, stop: Ints) -> Runs:
        starts = self._shards.sentences
        return starts[begin], starts[stop] - starts[begin]


def _pick(chosen: NDArray[np.bool_], these: Runs, others: Runs) -> Runs:
    return np.where(chosen, these[0], others[0]), np.where(chosen, these[1], others[1])


def shorten(first: Runs, second: Runs, room: Ints | int) -> tuple[Runs, Runs]:
    """Cut the longer of two segments until both fit: the first at its front, the second at its end.

    So what stands beside the other segment stays, whether the pair is true or false.
    """
    half = room // 2
    a = np.where(second[1] <= half, room - second[1], room - half)
    a = np.minimum(first[1], a)
    return (first[0] + first[1] - a, a), (second[0], np.minimum(second[1], room - a))
