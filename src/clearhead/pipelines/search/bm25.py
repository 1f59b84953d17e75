"""BM25 (Robertson et al. 1994) as Lucene computes it: which passages share rare words with the query."""

# P passages · V different words · M postings: pairs of a word and a passage that has it

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from clearhead.pipelines.search.ranking import Ranking, best

K1 = 1.2
B = 0.75

# Chinese and Japanese write no spaces: each of their characters is a word
_NO_SPACES = "\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W{_NO_SPACES}]+")


def words(text: str) -> list[str]:
    """The words of a text, without case; not stemmed, none left out."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


@dataclass(frozen=True, eq=False)
class Bm25:
    """An inverted index: the postings of word v are places starts[v] … starts[v + 1] of `passages` and `counts`."""

    vocabulary: dict[str, int]
    starts: NDArray[np.int64]  # (V + 1,)
    passages: NDArray[np.int32]  # (M,)
    counts: NDArray[np.int32]  # (M,) how often the word is in the passage
    lengths: NDArray[np.int32]  # (P,) words in each passage

    @classmethod
    def build(cls, texts: Iterable[str]) -> Self:
        """Read every text once."""
        vocabulary: dict[str, int] = {}
        terms, passages, counts, lengths = (array("i") for _ in range(4))
        for number, text in enumerate(texts):
            found = words(text)
            lengths.append(len(found))
            for word, count in Counter(found).items():
                terms.append(vocabulary.setdefault(word, len(vocabulary)))
                passages.append(number)
                counts.append(count)
        order = np.argsort(_ints(terms), kind="stable")
        starts = np.zeros(len(vocabulary) + 1, np.int64)
        np.cumsum(np.bincount(_ints(terms), minlength=len(vocabulary)), out=starts[1:])
        return cls(vocabulary, starts, _ints(passages)[order], _ints(counts)[order], _ints(lengths))

    @cached_property
    def rarity(self) -> NDArray[np.float64]:
        """What each word counts, (V,), the more the fewer passages have it."""
        frequencies = np.diff(self.starts)
        return np.asarray(np.log1p((len(self.lengths) - frequencies + 0.5) / (frequencies + 0.5)))

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """What each posting adds to its passage's score, (M,)."""
        length = self.lengths / (self.lengths.sum() / max(len(self.lengths), 1) or 1)
        saturation = self.counts / (self.counts + K1 * (1 - B + B * length[self.passages]))
        return (self.rarity.repeat(np.diff(self.starts)) * saturation).astype(np.float32)

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every passage, (P,); a word that the query has twice counts twice."""
        scores = np.zeros(len(self.lengths), np.float32)
        for word in words(query):
            if (term := self.vocabulary.get(word)) is not None:
                postings = slice(self.starts[term], self.starts[term + 1])
                scores[self.passages[postings]] += self.weights[postings]
        return scores

    def shares(self, query: str) -> NDArray[np.float32]:
        """Of the query's words, counted by their rarity, how much each passage has, (P,): from 0 up to 1.

        A word that no passage has is rarer than any: where most of a query is not there, what is there says little.
        """
        terms = [self.vocabulary.get(word) for word in words(query)]
        known = self.rarity[[term for term in terms if term is not None]].sum()
        unknown = terms.count(None) * np.log1p((len(self.lengths) + 0.5) / 0.5)
        return self.scores(query) / np.float32(known + unknown or 1)

    def rank(self, queries: Sequence[str], top: int, among: NDArray[np.int64] | None = None) -> list[Ranking]:
        """The `top` passages for each query, of all or `among` some; those that share no word with it are left out."""
        if among is None:
            rankings = [best(self.scores(query), top) for query in queries]
        else:
            rankings = [best(self.scores(query)[among], top).at(among) for query in queries]
        return [Ranking(places[scores > 0], scores[scores > 0]) for places, scores in rankings]


def rarity(frequency: int, passages: int) -> float:
    """What a word counts that so many of all passages have."""
    return math.log1p((passages - frequency + 0.5) / (frequency + 0.5))


def score(asked: Sequence[str], rarities: Mapping[str, float], text: str, mean_length: float) -> float:
    """The score of one passage, as `Bm25.scores` has it, where the words of all are not at hand."""
    found = Counter(words(text))
    length = K1 * (1 - B + B * found.total() / (mean_length or 1))
    return sum(rarities[word] * found[word] / (found[word] + length) for word in asked if found[word])


def _ints(values: Any) -> NDArray[np.int32]:
    return np.frombuffer(values, np.int32) if len(values) else np.zeros(0, np.int32)
