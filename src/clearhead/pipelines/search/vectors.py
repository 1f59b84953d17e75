"""Search by meaning: the cosine of the query's vector with every passage's, or with those a graph leads to."""

# P passages · Q queries · D width

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import NotFound
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.graph import Graph
from clearhead.pipelines.search.ranking import Ranking, best

Embed = Callable[[Sequence[str]], Vectors]  # unit vectors, (texts, D)
Places = NDArray[np.int64]

# a model is known by what it makes of these; half precision or int8 weights move the cosine less than another model
_PROBES = ("The animal didn't cross the street.", "Ich muss auf den Markt gehen.", "340 million parameters, 24 layers")
_SAME_MODEL = 0.98

_QUERIES = 64  # that are compared with all passages at once
_BACKGROUND = 10_000  # passages by which the usual cosine is known, at most
_LEAST_SPREAD = 0.01  # of cosines; passages that are all the same have none
_WEIGHT = 0.12  # of nearness, where passages have nothing in common: measured, see docs/search.md


def probe_of(embed: Embed) -> Vectors:
    """The fingerprint of a model: what it makes of three sentences."""
    return embed(_PROBES)


def same_model(probe: Vectors, other: Vectors) -> bool:
    """Whether two fingerprints are those of one model."""
    return probe.shape == other.shape and float((probe * other).sum(1).min()) >= _SAME_MODEL


@dataclass(frozen=True, eq=False)
class Background:
    """Some of all passages, by which is known how near any passage is."""

    vectors: Vectors
    passages: int  # of which these are some

    def nearness(self, wanted: Vectors, cosines: NDArray[np.float32]) -> NDArray[np.float32]:
        """How much nearer to a vector passages are, by their cosines, than the nearest of no account would be.

        In standard deviations of the cosines with all passages: those of one model lie between 0.6 and 0.9, those of
        another between 0 and 0.7, and so they compare. Of many that mean something else, the nearest is √(2 ln P) of
        them above the mean.
        """
        some = self.vectors @ wanted
        by_chance = math.sqrt(2 * math.log(self.passages))
        return np.asarray((cosines - some.mean()) / max(some.std(), _LEAST_SPREAD) - by_chance, np.float32)

    @cached_property
    def weight(self) -> float:
        """How much nearness counts beside words: little where all vectors lie close together, as untrained ones do."""
        return _WEIGHT * (1 - float((self.vectors.mean(0) ** 2).sum()))  # the mean cosine of two passages


@dataclass(frozen=True, eq=False)
class VectorSearch:
    """Unit vectors of all passages, (P, D), the model that made them, and the graph of many, if there is one.

    In the graph, passage p has the key `keys[p]`; where there are none, p itself.
    """

    vectors: Vectors
    probe: Vectors
    embed: Embed | None = field(repr=False)
    graph: Graph | None = field(default=None, repr=False)
    keys: Places | None = field(default=None, repr=False)

    @classmethod
    def build(cls, texts: Sequence[str], embed: Embed) -> Self:
        """Embed every text."""
        return cls(embed(texts), probe_of(embed), embed)

    def made_by(self, embed: Embed) -> bool:
        """Whether this model made the vectors, by what it makes of three sentences."""
        return same_model(self.probe, probe_of(embed))

    def embedded(self, queries: Sequence[str]) -> Vectors:
        """The queries' vectors, (Q, D)."""
        if self.embed is None:
            raise NotFound("this index was loaded without its model; name the model, or search with method='bm25'")
        return self.embed(queries)

    def nearest(
        self, wanted: Vectors, top: int, *, approximate: bool | None = None, among: Places | None = None
    ) -> Iterator[Ranking]:
        """The `top` passages for each vector, (Q, D): through the graph, if there is one; or those `among` some."""
        if among is not None:
            some = self.vectors[among]
            return (best(some @ one, top).at(among) for one in wanted)
        if approximate or (approximate is None and self.graph is not None):
            return self._led_to(wanted, top)
        return (best(row, top) for row in self.cosines(wanted))

    def cosines(self, wanted: Vectors) -> Iterator[Vectors]:
        """The cosines of each vector, (Q, D), with all passages, (P,)."""
        blocks = (wanted[i : i + _QUERIES] for i in range(0, len(wanted), _QUERIES))
        return (row for block in blocks for row in block @ self.vectors.T)

    @cached_property
    def background(self) -> Background:
        """Some of the passages, evenly chosen."""
        return Background(self.vectors[:: -(-len(self.vectors) // _BACKGROUND)], len(self.vectors))

    def _led_to(self, wanted: Vectors, top: int) -> Iterator[Ranking]:
        for one, keys in zip(wanted, self.made_graph.nearest(wanted, top), strict=True):
            places = keys if self.keys is None else self._order[np.searchsorted(self.keys, keys, sorter=self._order)]
            yield best(self.vectors[places] @ one, top).at(places)  # exact, of those that the graph gives

    @cached_property
    def made_graph(self) -> Graph:
        """The graph; where none was saved, made now."""
        if self.graph is not None:
            return self.graph
        return Graph.build(np.arange(len(self.vectors)) if self.keys is None else self.keys, self.vectors)

    @cached_property
    def _order(self) -> Places:
        assert self.keys is not None  # noqa: S101
        return np.argsort(self.keys)
