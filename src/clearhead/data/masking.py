"""Tokens chosen, hidden and asked for: BERT's masking, of single pieces, of whole words, or of spans (SpanBERT)."""

# N packed tokens · V vocabulary

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batch import Batch
from clearhead.data.choosing import choose_pieces, choose_spans, choose_words
from clearhead.data.shards import Ints
from clearhead.data.source import Derived, Source, rng
from clearhead.errors import require
from clearhead.text.template import Special
from clearhead.text.tokenizer import Tokenizer

_DRAW = 2  # keeps these draws apart from the order of an epoch and from the draws of pairs
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


class Masked(Derived):
    """Another source's batches, masked; which tokens are chosen depends on the seed and the batch's number alone."""

    def __init__(
        self, source: Source, vocabulary: Vocabulary, masking: Masking | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(source)
        self._vocabulary = vocabulary
        self._masking = masking or Masking()
        self._seed = seed

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        return mask(self.source.batch(index), self._vocabulary, self._masking, rng(self._seed, index, _DRAW))


def mask(batch: Batch, vocabulary: Vocabulary, masking: Masking, draw: np.random.Generator) -> Batch:
    """Choose tokens and replace them; targets `where` (M,) has their places in order, `labels` (M,) their true ids.

    Each chosen token, or span, becomes the mask (80 %), a random ordinary token (10 %) or stays (10 %).
    """
    ids = batch.ids.numpy()
    candidates = np.flatnonzero(~vocabulary.special[ids])
    count = masking.count(len(candidates))
    if masking.spans and count:
        chosen, lots = choose_spans(_word_sizes(batch, candidates, vocabulary), count, draw)
    elif masking.whole_words:
        chosen, lots = choose_words(_word_sizes(batch, candidates, vocabulary), count, draw)
    else:
        chosen, lots = choose_pieces(len(candidates), count, draw)
    where = candidates[chosen]
    fate = draw.random(len(where))[lots]  # equal lots, equal fate
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
