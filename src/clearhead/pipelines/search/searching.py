"""What every search does, whatever is searched: check what was asked, rank, read the best again, cut off the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, get_args

import numpy as np

from clearhead.errors import BadInput, require
from clearhead.pipelines.results import Hit
from clearhead.pipelines.search.ranking import Ranking, reranked
from clearhead.pipelines.search.reranking import MOST_READ, how_many, readings
from clearhead.pipelines.search.where import Condition, Where, conditions

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

Method = Literal["vectors", "bm25", "hybrid"]
CANDIDATES = 100  # that each of two rankings puts forward, where not all passages are scored


class SearchOptions(TypedDict, total=False):
    """The options of `Index.search` and `StoredIndex.search`."""

    top_k: int
    method: Method | None
    min_score: float | None
    rerank: bool | None
    rerank_with: Model | None
    approximate: bool | None
    where: Where | None


class Ranks(Protocol):
    """What can be searched."""

    @property
    def model(self) -> Model | None:
        """The model that is asked to rerank, if it has a skill for that."""

    def usual_method(self) -> Method:
        """How it is searched where nothing is said."""

    def rank(
        self, queries: list[str], top: int, method: Method, approximate: bool | None, where: Sequence[Condition]
    ) -> list[list[Hit]]:
        """The `top` passages of each query, the best first."""


def searched(
    index: Ranks,
    queries: list[str],
    *,
    top_k: int = 10,
    method: Method | None = None,
    min_score: float | None = None,
    rerank: bool | None = None,
    rerank_with: Model | None = None,
    approximate: bool | None = None,
    where: Where | None = None,
) -> list[list[Hit]]:
    """The `top_k` passages of each query; for the options see `Index.search`."""
    require(top_k > 0, f"top_k={top_k} passages cannot be given; choose 1 or more", BadInput)
    require(all(query.strip() for query in queries), "the query is empty; give some words", BadInput)
    known = get_args(Method)
    require(method in (None, *known), f"method={method!r} is not known; choose {', '.join(known)}", BadInput)
    chosen = method or index.usual_method()
    reader = _reader(index, method, rerank, rerank_with)
    depth = top_k if reader is None else top_k + MOST_READ
    found = index.rank(queries, depth, chosen, approximate, conditions(where))
    if reader is not None:
        found = _read_again(queries, found, top_k, reader, probable=chosen == "hybrid")
    least = -np.inf if min_score is None else min_score
    return [[hit for hit in hits if hit.score >= least] for hits in found]


def _reader(index: Ranks, method: Method | None, rerank: bool | None, rerank_with: Model | None) -> Model | None:
    """The cross-encoder of a search, or none."""
    if rerank is None:
        own = index.model is not None and "rerank" in index.model.uses
        rerank = rerank_with is not None or (own and method in (None, "hybrid"))
    if not rerank:
        require(rerank_with is None, "rerank=False leaves rerank_with nothing to do; give one of the two", BadInput)
        return None
    if (reader := rerank_with or index.model) is None:
        raise BadInput("this index has no model to rerank with; name a cross-encoder: rerank_with, --rerank-with")
    return reader.able("rerank")


def _read_again(
    queries: list[str], found: list[list[Hit]], top_k: int, reader: Model, *, probable: bool
) -> list[list[Hit]]:
    # where scores do not compare with the reader's, all that is given must have been read
    least = 1 if probable else top_k
    texts = [[hit.text for hit in hits] for hits in found]
    first = [(query, some[: how_many(query, some, least)]) for query, some in zip(queries, texts, strict=True)]
    again: list[list[Hit]] = []
    for hits, odds in zip(found, readings(reader, first), strict=True):
        scores = np.array([hit.score for hit in hits], np.float32)
        ranking = reranked(Ranking(np.arange(len(hits)), scores), odds, top_k, probable=probable)
        again.append([replace(hits[place], score=float(score)) for place, score in zip(*ranking, strict=True)])
    return again
