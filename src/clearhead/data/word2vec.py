"""Words and the words around them, for word2vec: frequent words thinned out, random words to compare with.

As Mikolov et al. 2013 have it: a word of share f among all is kept with probability √(t/f) + t/f, each window reaches
1 to `window` words, and random words are drawn in proportion to count^0.75.
"""

# M guesses · K random words · V vocabulary

from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batch import Batch, Ints
from clearhead.data.masking import special_tokens
from clearhead.data.rng import Stream, order, rng
from clearhead.data.shards import Shards, check_tokenizer
from clearhead.errors import BadConfig, require
from clearhead.nn.layout import Packed
from clearhead.text.tokenizer import Tokenizer

Kind = Literal["cbow", "skipgram"]
_DOCUMENTS = 4096  # counted at a time


class WordWindows:
    """A source (see `data.rng`) of guesses from `words` running words of the corpus to a batch.

    Words the vocabulary does not know take no part. Target: candidates (M, 1 + negatives), the true word first.
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        kind: Kind,
        seed: int,
        words: int = 1024,
        window: int = 5,
        negatives: int = 5,
        threshold: float = 1e-3,
    ) -> None:
        check_tokenizer(shards, tokenizer)
        for name, value in (("words", words), ("window", window), ("negatives", negatives)):
            require(value >= 1, f"{name} must be at least 1, got {value}", BadConfig)
        require(threshold > 0, f"threshold must be positive, got {threshold}; write 1 to keep every word", BadConfig)
        kinds = get_args(Kind)
        require(kind in kinds, f"there is no kind {kind!r}; choose {' or '.join(kinds)}", BadConfig)
        self._shards, self._kind, self._seed = shards, kind, seed
        self._words, self._window, self._negatives = words, window, negatives
        self._counts = count_words(shards, tokenizer)
        self._keep = keep_probability(self._counts, threshold)
        self._noise = np.cumsum(self._counts**0.75)
        self._chunks = -(-shards.tokens // words)

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""
        epoch, place = divmod(index, self._chunks)
        chunk = int(order(self._chunks, self._seed, epoch)[place])
        draw = rng(Stream.WORD_WINDOWS, self._seed, epoch, chunk)
        words, documents = self._read(chunk)
        kept = draw.random(len(words)) < self._keep[words]
        words, documents = words[kept], documents[kept]
        centres, others = neighbours(documents, draw.integers(1, self._window + 1, len(words)), self._window)
        if self._kind == "cbow":  # read the words around, guess the one in the middle
            middle, sizes = np.unique(centres, return_counts=True)
            read, true = words[others], words[middle]
        else:  # read one word, guess each of those around
            read, sizes, true = words[centres], np.ones_like(centres), words[others]
        random = np.searchsorted(self._noise, draw.random((len(true), self._negatives)) * self._noise[-1], "right")
        candidates = np.concatenate([true[:, None], random], axis=1)
        targets = {"candidates": torch.from_numpy(candidates)}
        return Batch(torch.from_numpy(read), Packed.of(sizes.tolist()), targets=targets)

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs are."""
        return max(round(epochs * self._chunks), 1)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return index / self._chunks

    def _read(self, chunk: int) -> tuple[Ints, Ints]:
        """Give the words of a chunk of the corpus, and the document of each."""
        start, stop = chunk * self._words, min((chunk + 1) * self._words, self._shards.tokens)
        starts = self._shards.document_starts
        first, last = np.searchsorted(starts, [start, stop - 1], "right") - 1
        borders = np.clip(starts[first : last + 2], start, stop)  # a run must not reach over two documents
        lengths = np.diff(borders)
        return self._shards.gather(borders[:-1], lengths), np.repeat(np.arange(len(lengths)), lengths)


def count_words(shards: Shards, tokenizer: Tokenizer) -> NDArray[np.float64]:
    """Count each word of the vocabulary, (V,); unknown words and special tokens count 0."""
    counts = np.zeros(tokenizer.vocabulary)
    starts = shards.document_starts
    for first in range(0, len(starts) - 1, _DOCUMENTS):
        some = starts[first : first + _DOCUMENTS + 1]
        counts += np.bincount(shards.gather(some[:-1], np.diff(some)), minlength=len(counts))
    counts[special_tokens(tokenizer)] = 0
    known = bool(counts.any())
    require(known, "the corpus holds no word that the tokenizer knows; train the tokenizer on it", BadConfig)
    return counts


def keep_probability(counts: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """How likely a word stays, (V,): 1 for rare words, little for the most frequent, 0 for those that never come."""
    share = counts / counts.sum()
    ratio = threshold / np.where(share > 0, share, np.inf)
    return np.minimum(np.sqrt(ratio) + ratio, 1.0)


def neighbours(documents: Ints, reach: Ints, window: int) -> tuple[Ints, Ints]:
    """Pair each place with those up to `reach` words away in the same document: centres and neighbours, in order."""
    place = np.arange(len(documents))
    offsets = np.array([step for step in range(-window, window + 1) if step])
    other = place[:, None] + offsets
    inside = (other >= 0) & (other < len(documents)) & (np.abs(offsets) <= reach[:, None])
    inside &= documents[np.clip(other, 0, max(len(documents) - 1, 0))] == documents[:, None]
    return np.repeat(place, inside.sum(1)), other[inside]
