"""Which tokens are hidden and asked for: BERT's masking of pieces, words, spans or n-grams; XLNet's permutations."""

# N packed tokens · M tokens to be predicted · V vocabulary

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batch import Batch, Ints
from clearhead.data.rng import BatchSource, DerivedBatches, Stream, rng
from clearhead.data.shards import positions_within
from clearhead.errors import require
from clearhead.nn.layout import Packed
from clearhead.text.encoding import Special
from clearhead.text.tokenizer import Tokenizer

# SpanBERT, section 3.1: geometric with p = 0.2, no span longer than 10 words, so that the mean is 3.8
_LENGTHS = np.arange(1, 11)
_PROBABILITIES = 0.2 * 0.8 ** (_LENGTHS - 1)

Floats = NDArray[np.floating]


def choose_words(sizes: Ints, count: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Choose whole words of these sizes, in random order, as long as they fit into `count` pieces.

    The last that does not fit is passed over for shorter ones, so fewer pieces are chosen only where no word is short
    enough, and short words are favoured by two or three in a batch.
    """
    mixed = draw.permutation(len(sizes))
    filled = np.cumsum(sizes[mixed])
    taken = int(np.searchsorted(filled, count, "right"))
    words = [mixed[:taken]]
    missing = count - int(filled[taken - 1]) if taken else count
    rest = mixed[taken:]
    while missing and len(fitting := np.flatnonzero(sizes[rest] <= missing)):
        words.append(rest[fitting[:1]])
        missing -= int(sizes[rest[fitting[0]]])
        rest = rest[fitting[0] + 1 :]
    pieces = _pieces(sizes, np.sort(np.concatenate(words)))
    return pieces, np.arange(len(pieces))


def choose_spans(
    sizes: Ints, count: int, draw: np.random.Generator, weights: Floats = _PROBABILITIES
) -> tuple[Ints, Ints]:
    """Choose spans of whole words, all pieces of a span in one group; the last span drawn is cut to fit.

    `weights` say how likely spans of 1, 2, … words are.

    Spans never overlap, and every word is as likely as any other: free words and spans are mixed, and the row of
    words is a ring. A span over the end of a sequence goes on in the next one.
    """
    words = len(sizes)
    lengths = span_lengths(min(count, words), draw, weights)  # a word has at least one piece, so these are enough
    free = words - int(lengths.sum())
    places = np.sort(draw.choice(free + len(lengths), len(lengths), replace=False, shuffle=False))
    begins = places + np.cumsum(lengths) - lengths - np.arange(len(lengths))
    mixed = draw.permutation(len(lengths))
    covered = np.repeat(begins[mixed], lengths[mixed]) + positions_within(lengths[mixed])
    covered = (covered + draw.integers(words)) % words
    pieces = _pieces(sizes, covered)[:count]
    groups = np.repeat(np.repeat(np.arange(len(mixed)), lengths[mixed]), sizes[covered])[:count]
    in_order = np.argsort(pieces)
    return pieces[in_order], groups[in_order]


def span_lengths(total: int, draw: np.random.Generator, weights: Floats = _PROBABILITIES) -> Ints:
    """Draw lengths of spans until they cover `total` words; the last is cut to fit."""
    # even if all had length 1, so many would do
    drawn = draw.choice(np.arange(1, len(weights) + 1), size=total, p=weights / weights.sum())
    ends = np.cumsum(drawn)
    last = int(np.searchsorted(ends, total))
    lengths = drawn[: last + 1]
    lengths[-1] -= ends[last] - total
    return lengths


def _pieces(sizes: Ints, words: Ints) -> Ints:
    """The pieces of words, word by word."""
    starts = np.cumsum(sizes) - sizes
    return np.repeat(starts[words], sizes[words]) + positions_within(sizes[words])


_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What masking must know of a tokenizer."""

    mask_id: int
    special: NDArray[np.bool_]  # (V,) never chosen and never drawn
    continues: NDArray[np.bool_]  # (V,) pieces that go on with a word

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Find the special ids, and which pieces go on with a word: ##s for BERT, those without Ġ or ▁ for others."""
        tokens = [tokenizer.id_to_token(i) or "" for i in range(tokenizer.vocabulary)]
        special = special_tokens(tokenizer)
        if any(token.startswith("##") for token in tokens):
            continues = [token.startswith("##") for token in tokens]
        else:
            continues = [token[:1] not in ("Ġ", "▁") and not _PUNCTUATION.issuperset(token) for token in tokens]
        return cls(mask_id=tokenizer.mask_id, special=special, continues=np.array(continues) & ~special)


def special_tokens(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which tokens are no text, (V,): those with a role, and those that the tokenizer puts round texts."""
    found = np.zeros(tokenizer.vocabulary, dtype=bool)
    named = map(tokenizer.token_to_id, tokenizer.special.values())
    found[[token for token in named if token is not None]] = True
    found[[item.id for item in tokenizer.template.pair if isinstance(item, Special)]] = True
    return found


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How much is masked, and how: published values unless said otherwise.

    `whole_words` chooses all pieces of a word or none, `spans` runs of words as long as SpanBERT's, `ngrams` (ALBERT)
    runs of at most so many words, shorter ones more often. The number of chosen tokens is rounded to a `multiple`, so
    that compiled networks see few shapes. With `most` or `duplicates` each sequence is counted on its own.
    """

    rate: float = 0.15  # share of the tokens that are chosen
    mask_share: float = 0.8  # of these, the share that becomes [MASK],
    random_share: float = 0.1  # and another token; the rest stays
    whole_words: bool = False  # choose all pieces of a word or none
    spans: bool = False  # choose runs of words, as SpanBERT
    multiple: int = 1  # the number of chosen tokens is rounded to a multiple of this
    ngrams: int | None = None  # choose runs of at most so many words, as ALBERT
    most: int | None = None  # tokens chosen in a sequence, whatever the rate says
    duplicates: int | None = None  # masks of a sequence, drawn once and met again; None draws anew each time

    def __post_init__(self) -> None:
        require(0 < self.rate < 1, f"The masking rate is {self.rate}; it must lie between 0 and 1.")
        shares = self.mask_share >= 0 and self.random_share >= 0 and self.mask_share + self.random_share <= 1
        require(shares, f"Shares of {self.mask_share} masks and {self.random_share} random tokens make no whole.")
        kinds = [self.whole_words, self.spans, self.ngrams is not None]
        require(sum(kinds) <= 1, "Spans and n-grams are made of whole words; choose one of the three.")
        require(self.multiple >= 1, f"The count cannot be a multiple of {self.multiple}; choose 1 or more.")
        for name in ("ngrams", "most", "duplicates"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"masking.{name} is {value}; choose 1 or more, or leave it out.")
        rounded = self.by_sequence and self.multiple > 1
        told = f"masking.most and masking.duplicates count each sequence, so that no multiple of {self.multiple} is met"
        require(not rounded, f"{told}; set masking.multiple=1.")

    @property
    def by_sequence(self) -> bool:
        """Whether tokens are counted in each sequence, not in the whole batch."""
        return self.most is not None or self.duplicates is not None

    def count(self, candidates: int) -> int:
        """How many tokens are chosen of so many candidates: the rate, rounded to the multiple, and at least one."""
        wanted = round(self.rate * candidates / self.multiple) * self.multiple
        return min(max(wanted, min(self.multiple, candidates)), candidates, self.most or candidates)


class MaskedBatches(DerivedBatches):
    """Another source's batches, masked; which tokens are chosen depends on the seed and the batch's number alone.

    With `duplicates` it depends on the seed, the sequence and the epoch: one that comes again unchanged after so many
    epochs has the mask that it had, as in the data sets that BERT and ALBERT were trained on.
    """

    def __init__(
        self, source: BatchSource, vocabulary: Vocabulary, masking: Masking | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(source)
        self._vocabulary, self._masking, self._seed = vocabulary, masking or Masking(), seed

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        batch, duplicates = self.source.batch(index), self._masking.duplicates
        if duplicates is None:
            return mask(batch, self._vocabulary, self._masking, rng(Stream.MASKING, self._seed, index))
        epoch = int(self.source.epoch_of(index)) % duplicates
        return _mask(
            batch,
            self._vocabulary,
            self._masking,
            lambda ids: rng(Stream.MASKING, self._seed, epoch, _digest(ids)),
        )


def _digest(ids: Ints) -> int:
    return int.from_bytes(hashlib.blake2b(ids.tobytes(), digest_size=8).digest())


def mask(batch: Batch, vocabulary: Vocabulary, masking: Masking, draw: np.random.Generator) -> Batch:
    """Choose tokens and replace them; targets `where` (M,) has their places in order, `labels` (M,) their true ids.

    Each chosen token, or span, becomes the mask (80 %), a random ordinary token (10 %) or stays (10 %).
    """
    return _mask(batch, vocabulary, masking, lambda _: draw)


def _mask(
    batch: Batch, vocabulary: Vocabulary, masking: Masking, draws: Callable[[Ints], np.random.Generator]
) -> Batch:
    """Mask a batch; `draws` gives the random numbers of a sequence (n,), or of all, by what masking counts."""
    ids, offsets = batch.ids.numpy(), batch.layout.offsets.numpy()
    ordinary = np.flatnonzero(~vocabulary.special)
    # behind a special token and at the start of a sequence, any piece begins a word
    begins = ~vocabulary.continues[ids]
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    hidden, places = ids.copy(), []
    for start, stop in pairwise(offsets.tolist() if masking.by_sequence else [0, len(ids)]):
        draw, candidates = draws(ids[start:stop]), start + np.flatnonzero(~vocabulary.special[ids[start:stop]])
        chosen, groups = _choose(candidates, begins, masking, draw)
        where = candidates[chosen]
        fate = draw.random(len(where))[groups]  # a group shares its fate
        anything = ordinary[draw.integers(0, len(ordinary), len(where))]
        hidden[where] = np.where(
            fate < masking.mask_share,
            vocabulary.mask_id,
            np.where(fate < masking.mask_share + masking.random_share, anything, ids[where]),
        )
        places.append(where)
    where = np.concatenate(places)
    targets = {"where": torch.from_numpy(where), "labels": torch.from_numpy(ids[where])}
    return replace(batch, ids=torch.from_numpy(hidden), targets={**batch.targets, **targets})


def _choose(
    candidates: Ints, begins: NDArray[np.bool_], masking: Masking, draw: np.random.Generator
) -> tuple[Ints, Ints]:
    """Which of the candidates are masked, in order, and to which group each belongs; `begins` (N,) begin a word."""
    count = masking.count(len(candidates))
    runs = (masking.spans or masking.ngrams) and count
    if not (runs or masking.whole_words):
        return np.sort(draw.choice(len(candidates), count, replace=False, shuffle=False)), np.arange(count)
    opens = begins[candidates] | (np.diff(candidates, prepend=-2) > 1)
    sizes = np.diff(np.flatnonzero(opens), append=len(candidates))
    if masking.whole_words:
        return choose_words(sizes, count, draw)
    if masking.spans:
        return choose_spans(sizes, count, draw)
    chosen, _ = choose_spans(sizes, count, draw, 1 / np.arange(1, (masking.ngrams or 1) + 1))
    return chosen, np.arange(len(chosen))  # each token has a fate of its own, as in the published code


SHARE = 1 / 6  # of a text is guessed (section 2.3: K = 6)


class PermutedBatches(DerivedBatches):
    """Another source's texts as `source`, with target `rank`, and the asked tokens as the batch itself.

    Their target `place` (M,) is where each stands in its text. Special tokens are never asked for. With `segment`,
    texts of a multiple of so many tokens have an order in each segment of its own. With `left_to_right` all words are
    asked for in the order in which they stand, but for the first of each segment or text.
    """

    def __init__(
        self,
        source: BatchSource,
        tokenizer: Tokenizer,
        *,
        share: float = SHARE,
        segment: int | None = None,
        left_to_right: bool = False,
        seed: int = 0,
    ) -> None:
        require(0 < share < 1, f"The share to guess is {share}; it must lie between 0 and 1.")
        super().__init__(source)
        self._share, self._segment, self._left_to_right, self._seed = share, segment, left_to_right, seed
        self._special = special_tokens(tokenizer)
        # which segment a special token is in is known; the rest of a single text is in the first
        self._segments = torch.zeros(tokenizer.vocabulary, dtype=torch.int64)
        for item in tokenizer.template.single:
            if isinstance(item, Special):
                self._segments[item.id] = item.segment

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        text = self.source.batch(index)
        text = replace(text, segments=self._segments[text.ids])
        if self._segment is None:
            return self._asked(text, index)
        cut = replace(text, layout=Packed.of([self._segment] * (text.tokens // self._segment)))
        return _joined(self._asked(cut, index), text.layout, self._segment)

    def _asked(self, text: Batch, index: int) -> Batch:
        if self._left_to_right:
            return in_order(text, self._special)
        return permute(text, self._special, self._share, rng(Stream.PERMUTATION, self._seed, index))


def permute(text: Batch, special: NDArray[np.bool_], share: float, draw: np.random.Generator) -> Batch:
    """Draw an order for each text and ask for the last of it.

    Those asked have ranks 1, 2, … in that order. All others have rank 0, so that they see one another, as in the
    published code; who is asked sees them and those asked before.
    """
    rank = np.zeros(text.tokens, dtype=np.int64)
    places, start = [], 0
    for length in text.layout.lengths:
        words = np.flatnonzero(~special[text.ids[start : start + length].numpy()])
        count = max(round(share * len(words)), 1) if len(words) > 1 else 0
        asked = draw.permutation(words)[len(words) - count :]
        rank[start + asked] = np.arange(1, count + 1)
        places.append(np.sort(asked))
        start += length
    firsts = np.repeat(np.cumsum([0, *text.layout.lengths[:-1]]), [len(asked) for asked in places])
    place = np.concatenate(places)
    return Batch(
        text.ids[torch.from_numpy(firsts + place)],
        Packed.of([len(asked) for asked in places]),
        targets={"place": torch.from_numpy(place)},
        source=replace(text, targets={"rank": torch.from_numpy(rank)}),
    )


def in_order(text: Batch, special: NDArray[np.bool_]) -> Batch:
    """Ask for each word of a text from all tokens before it; special tokens are read, and not asked for."""
    position = text.layout.positions
    chosen = (position > 0) & ~torch.from_numpy(special)[text.ids]
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), chosen.long().cumsum(0)])
    counts = ends[text.layout.offsets.long()].diff().tolist()
    source = replace(text, targets={"rank": position + 1})
    return Batch(text.ids[chosen], Packed.of(counts), targets={"place": position[chosen]}, source=source)


def _joined(asked: Batch, texts: Packed, segment: int) -> Batch:
    """Questions about segments as questions about the texts that they are cut out of."""
    counts = np.array(asked.layout.lengths)
    first = np.concatenate([np.arange(0, length, segment) for length in texts.lengths])  # where segments begin
    place = asked.targets["place"] + torch.from_numpy(np.repeat(first, counts))
    of_texts = np.add.reduceat(counts, np.flatnonzero(first == 0))
    source = None if asked.source is None else replace(asked.source, layout=texts)
    return Batch(asked.ids, Packed.of(of_texts.tolist()), targets={"place": place}, source=source)
