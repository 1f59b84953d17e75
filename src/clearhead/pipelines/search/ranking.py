"""The best of many scores, two rankings fused, and a cross-encoder's second ranking."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import WrongTask, require

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


_RELEVANT = ("relevant", "relevance", "entailment", "yes", "true")
_RANK_CONSTANT = 60  # of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)


class Ranking(NamedTuple):
    """Passages, the best first, and their scores."""

    places: NDArray[np.int64]
    scores: NDArray[np.float32]


def best(scores: NDArray[np.float32], top: int) -> Ranking:
    """The `top` highest scores; of equal ones, those that stand first."""
    if top < len(scores):
        # everything that ties with the last of the best takes part, so that ties are settled by place
        border = np.partition(scores, -top)[-top]
        places = np.flatnonzero(scores >= border)
    else:
        places = np.arange(len(scores))
    order = places[np.argsort(-scores[places], kind="stable")][:top]
    return Ranking(order, scores[order])


def fuse(rankings: Sequence[Ranking], top: int) -> Ranking:
    """Reciprocal rank fusion: a passage scores the sum of 1 / (60 + rank) over the rankings that found it."""
    places = np.unique(np.concatenate([ranking.places for ranking in rankings]))
    scores = np.zeros(len(places), np.float32)
    for ranking in rankings:
        where = np.searchsorted(places, ranking.places)
        scores[where] += 1 / (_RANK_CONSTANT + np.arange(1, len(where) + 1, dtype=np.float32))
    found = best(scores, top)
    return Ranking(places[found.places], found.scores)


def rerank(model: "Model", query: str, passages: Sequence[str], ranking: Ranking, top: int) -> Ranking:
    """Order the passages of a ranking by how well they answer the query; `passages` are their texts, in its order.

    The score is the head's single output, or the probability of the label that means yes: relevant, entailment, ….
    """
    if not passages:
        return ranking
    found = model.compare(query, passages)
    labels = list(found[0].scores)
    relevant = labels if len(labels) == 1 else [label for label in labels if label.lower() in _RELEVANT]
    require(
        len(relevant) == 1,
        f"a model with the labels {', '.join(sorted(labels))} cannot re-rank; it needs one output, or one label among "
        f"{', '.join(_RELEVANT)}",
        WrongTask,
    )
    order = best(np.array([one.scores[relevant[0]] for one in found], np.float32), top)
    return Ranking(ranking.places[order.places], order.scores)
