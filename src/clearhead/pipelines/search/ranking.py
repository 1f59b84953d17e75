"""The best of many scores, two kinds of score made one, and a cross-encoder's second ranking."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import WrongTask, require

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


_RELEVANT = ("relevant", "relevance", "entailment", "yes", "true")
_SLOPE, _EVEN = 6.0, 0.35


class Ranking(NamedTuple):
    """Passages, the best first, and their scores."""

    places: NDArray[np.int64]
    scores: NDArray[np.float32]

    def at(self, places: NDArray[np.int64]) -> "Ranking":
        """The same of passages that stand at these places among all."""
        return Ranking(places[self.places], self.scores)


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


def relevance(shares: NDArray[np.float32], nearness: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """How probable it is that passages are what a query looks for, by their words and their meaning together.

    `shares` are those of the query's words that each passage has (`Bm25.shares`), `nearness` how many standard
    deviations its cosine is above that of any passage. What both weigh, and which sum is as likely right as not, was
    fitted to searches whose answers are known: see docs/search.md.
    """
    return np.reciprocal(1 + np.exp(-_SLOPE * (shares + weight * nearness - _EVEN)), dtype=np.float32)


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
