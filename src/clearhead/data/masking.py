"""Which tokens are hidden and asked for: BERT's masking of pieces, words or spans (SpanBERT); XLNet's permutations."""

# N packed tokens · M tokens to be predicted · V vocabulary

from dataclasses import dataclass, replace
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


def choose_spans(sizes: Ints, count: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Choose spans of whole words, all pieces of a span in one group; the last span drawn is cut to fit.

    Spans never overlap, and every word is as likely as any other: free words and spans are mixed, and the row of
    words is a ring. A span over the end of a sequence goes on in the next one.
    """
    words = len(sizes)
    lengths = span_lengths(min(count, words), draw)  # a word has at least one piece, so these are enough
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


def span_lengths(total: int, draw: np.random.Generator) -> Ints:
    """Draw lengths of spans until they cover `total` words; the last is cut to fit."""
    # even if all had length 1, so many would do
    drawn = draw.choice(_LENGTHS, size=total, p=_PROBABILITIES / _PROBABILITIES.sum())
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

    `whole_words` chooses all pieces of a word or none, `spans` chooses runs of words of random length. The number of
    chosen tokens is rounded to a `multiple`, so that compiled networks see few shapes.
    """

    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    whole_words: bool = False
    spans: bool = False
    multiple: int = 1

    def __post_init__(self) -> None:
        require(0 < self.rate < 1, f"The masking rate is {self.rate}; it must lie between 0 and 1.")
        shares = self.mask_share >= 0 and self.random_share >= 0 and self.mask_share + self.random_share <= 1
        require(shares, f"Shares of {self.mask_share} masks and {self.random_share} random tokens make no whole.")
        require(not (self.whole_words and self.spans), "Spans are made of whole words; choose one of the two.")
        require(self.multiple >= 1, f"The count cannot be a multiple of {self.multiple}; choose 1 or more.")

    def count(self, candidates: int) -> int:
        """How many tokens are chosen of so many candidates: the rate, rounded to the multiple, and at least one."""
        wanted = round(self.rate * candidates / self.multiple) * self.multiple
        return min(max(wanted, min(self.multiple, candidates)), candidates)


class MaskedBatches(DerivedBatches):
    """Another source's batches, masked; which tokens are chosen depends on the seed and the batch's number alone."""

    def __init__(
        self, source: BatchSource, vocabulary: Vocabulary, masking: Masking | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(source)
        self._vocabulary, self._masking, self._seed = vocabulary, masking or Masking(), seed

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        draw = rng(Stream.MASKING, self._seed, index)
        return mask(self.source.batch(index), self._vocabulary, self._masking, draw)


def mask(batch: Batch, vocabulary: Vocabulary, masking: Masking, draw: np.random.Generator) -> Batch:
    """Choose tokens and replace them; targets `where` (M,) has their places in order, `labels` (M,) their true ids.

    Each chosen token, or span, becomes the mask (80 %), a random ordinary token (10 %) or stays (10 %).
    """
    ids = batch.ids.numpy()
    candidates = np.flatnonzero(~vocabulary.special[ids])
    count = masking.count(len(candidates))
    if masking.spans and count:
        chosen, groups = choose_spans(_word_sizes(batch, candidates, vocabulary), count, draw)
    elif masking.whole_words:
        chosen, groups = choose_words(_word_sizes(batch, candidates, vocabulary), count, draw)
    else:
        chosen = np.sort(draw.choice(len(candidates), count, replace=False, shuffle=False))
        groups = np.arange(count)
    where = candidates[chosen]
    fate = draw.random(len(where))[groups]  # a group shares its fate
    ordinary = np.flatnonzero(~vocabulary.special)
    anything = ordinary[draw.integers(0, len(ordinary), len(where))]
    hidden = ids.copy()
    hidden[where] = np.where(
        fate < masking.mask_share,
        vocabulary.mask_id,
        np.where(fate < masking.mask_share + masking.random_share, anything, ids[where]),
    )
    targets = {"where": torch.from_numpy(where), "labels": torch.from_numpy(ids[where])}
    return replace(batch, ids=torch.from_numpy(hidden), targets={**batch.targets, **targets})


def _word_sizes(batch: Batch, candidates: Ints, vocabulary: Vocabulary) -> Ints:
    """How many pieces each word has; behind a special token and at the start of a sequence, any piece begins one."""
    begins = ~vocabulary.continues[batch.ids.numpy()]
    offsets = batch.layout.offsets.numpy()
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    opens = begins[candidates] | (np.diff(candidates, prepend=-2) > 1)
    return np.diff(np.flatnonzero(opens), append=len(candidates))


SHARE = 1 / 6  # of a text is guessed (section 2.3: K = 6)


class PermutedBatches(DerivedBatches):
    """Another source's texts as `source`, with target `rank`, and the asked tokens as the batch itself.

    Their target `place` (M,) is where each stands in its text. Special tokens are never asked for.
    """

    def __init__(self, source: BatchSource, tokenizer: Tokenizer, *, share: float = SHARE, seed: int = 0) -> None:
        require(0 < share < 1, f"The share to guess is {share}; it must lie between 0 and 1.")
        super().__init__(source)
        self._share, self._seed = share, seed
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
