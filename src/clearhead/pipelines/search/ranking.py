"""The best of many scores, and several kinds of score made one."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SLOPE, _EVEN = 6.0, 0.35
READING = 0.5  # what the log-odds of a cross-encoder weigh beside those of `relevance`
_NEVER = 1e-7  # a single-precision number holds no less beside 1


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


def reranked(ranking: Ranking, odds: NDArray[np.float64], top: int, *, probable: bool) -> Ranking:
    """The `top` of a ranking whose first passages a cross-encoder has read; `odds` are its log-odds for these.

    Where the ranking's own scores are `probable`, that is probabilities, both are mixed, and passages that were not
    read keep theirs; else only those that were read remain, with what the cross-encoder says.
    """
    if probable:
        before = log_odds(ranking.scores)
        before[: len(odds)] = READING * odds + (1 - READING) * before[: len(odds)]
        odds = before
    order = np.argsort(-odds, kind="stable")[:top]
    return Ranking(ranking.places[order], probabilities(odds[order]).astype(np.float32))


def log_odds(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """log p / (1 - p), of certainties that of the next number."""
    exact = scores.astype(np.float64).clip(_NEVER, 1 - _NEVER)
    return np.asarray(np.log(exact) - np.log1p(-exact))


def probabilities(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `log_odds`."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * odds)))  # which never overflows
