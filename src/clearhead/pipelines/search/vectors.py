"""Search by meaning: the cosine of the query's vector with every passage's, or with those a graph leads to."""

# P passages · Q queries · D width

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from clearhead.errors import BadInput, NotFound, require
from clearhead.io import optional
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.ranking import Ranking, best

Embed = Callable[[Sequence[str]], Vectors]  # unit vectors, (texts, D)

# a model is known by what it makes of these; half precision or int8 weights move the cosine less than another model
_PROBES = ("The animal didn't cross the street.", "Ich muss auf den Markt gehen.", "340 million parameters, 24 layers")
_SAME_MODEL = 0.98

_QUERIES = 64  # that are compared with all passages at once
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

    def of(self, embed: Embed) -> Self:
        """The same vectors, searched with this model; refuse one that did not make them."""
        theirs = embed(_PROBES)
        same = theirs.shape == self.probe.shape and float((theirs * self.probe).sum(1).min()) >= _SAME_MODEL
        require(
            same,
            f"the index was built with another model, of width {self.vectors.shape[1]}; "
            "load that model, or build the index again with this one",
            BadInput,
        )
        return type(self)(self.vectors, self.probe, embed)

    def rank(self, queries: Sequence[str], top: int, *, approximate: bool = False) -> list[Ranking]:
        """The `top` passages for each query."""
        if self.embed is None:
            raise NotFound("this index was loaded without its model; name the model, or search with method='bm25'")
        wanted = self.embed(queries)
        if approximate:
            return self._near(wanted, top)
        blocks = (wanted[i : i + _QUERIES] for i in range(0, len(wanted), _QUERIES))
        return [best(row, top) for block in blocks for row in block @ self.vectors.T]

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
