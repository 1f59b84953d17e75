"""Search by meaning: the cosine of the query's vector with every passage's, or with those a graph leads to."""

# P passages · Q queries · D width

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import NotFound
from clearhead.io import optional
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.ranking import Ranking, best

Embed = Callable[[Sequence[str]], Vectors]  # unit vectors, (texts, D)

# a model is known by what it makes of these; half precision or int8 weights move the cosine less than another model
_PROBES = ("The animal didn't cross the street.", "Ich muss auf den Markt gehen.", "340 million parameters, 24 layers")
_SAME_MODEL = 0.98

_QUERIES = 64  # that are compared with all passages at once
_BACKGROUND = 10_000  # passages by which the usual cosine is known, at most
_LEAST_SPREAD = 0.01  # of cosines; passages that are all the same have none
_WEIGHT = 0.12  # of nearness, where passages have nothing in common: measured, see docs/search.md
_NEIGHBOURS = 32  # of each passage in the graph
_BUILT_WITH = 80  # candidates while the graph is built, and at least as many while it is searched


@dataclass(frozen=True, eq=False)
class VectorSearch:
    """Unit vectors of all passages, (P, D), and the model that made them."""

    vectors: Vectors
    probe: Vectors
    embed: Embed | None = field(repr=False)

    @classmethod
    def build(cls, texts: Sequence[str], embed: Embed) -> Self:
        """Embed every text."""
        return cls(embed(texts), embed(_PROBES), embed)

    def made_by(self, embed: Embed) -> bool:
        """Whether this model made the vectors, by what it makes of three sentences."""
        theirs = embed(_PROBES)
        return theirs.shape == self.probe.shape and float((theirs * self.probe).sum(1).min()) >= _SAME_MODEL

    def rank(self, queries: Sequence[str], top: int, *, approximate: bool = False) -> list[Ranking]:
        """The `top` passages for each query."""
        wanted = self._embedded(queries)
        return self._near(wanted, top) if approximate else [best(row, top) for row in self._cosines(wanted)]

    def nearness(
        self, queries: Sequence[str], places: Sequence[NDArray[np.int64]] | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """How much nearer to a query each passage is (or those at `places`) than the nearest of no account would be.

        In standard deviations of the cosines with all passages: those of one model lie between 0.6 and 0.9, those of
        another between 0 and 0.7, and so they compare. Of many that mean something else, the nearest is √(2 ln P) of
        them above the mean.
        """
        wanted = self._embedded(queries)
        some = wanted @ self.vectors[:: -(-len(self.vectors) // _BACKGROUND)].T
        found = self._cosines(wanted) if places is None else map(self._cosines_at, wanted, places)
        for row, mean, spread in zip(found, some.mean(1), some.std(1), strict=True):
            yield (row - mean) / max(spread, _LEAST_SPREAD) - math.sqrt(2 * math.log(len(self.vectors)))

    @cached_property
    def weight(self) -> float:
        """How much nearness counts beside words: little where all vectors lie close together, as untrained ones do."""
        some = self.vectors[:: -(-len(self.vectors) // _BACKGROUND)]
        return _WEIGHT * (1 - float((some.mean(0) ** 2).sum()))  # the mean cosine of two passages

    def _embedded(self, queries: Sequence[str]) -> Vectors:
        if self.embed is None:
            raise NotFound("this index was loaded without its model; name the model, or search with method='bm25'")
        return self.embed(queries)

    def _cosines(self, wanted: Vectors) -> Iterator[Vectors]:
        blocks = (wanted[i : i + _QUERIES] for i in range(0, len(wanted), _QUERIES))
        return (row for block in blocks for row in block @ self.vectors.T)

    def _cosines_at(self, one: Vectors, places: NDArray[np.int64]) -> Vectors:
        return np.asarray(self.vectors[places] @ one)

    def _near(self, wanted: Vectors, top: int) -> list[Ranking]:
        self._graph.hnsw.efSearch = max(_BUILT_WITH, 2 * top)
        scores, places = self._graph.search(wanted, top)
        # the graph says -1 where it found fewer
        return [Ranking(row[row >= 0], score[row >= 0]) for row, score in zip(places, scores, strict=True)]

    @cached_property
    def _graph(self) -> Any:
        with warnings.catch_warnings():  # its wrapper is built with a tool that Python 3.12 finds fault with
            warnings.simplefilter("ignore", DeprecationWarning)
            faiss = optional("faiss", "approximate search", "search")
        graph = faiss.IndexHNSWFlat(self.vectors.shape[1], _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _BUILT_WITH
        graph.add(self.vectors)
        return graph
