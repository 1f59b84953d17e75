"""The second look: a cross-encoder reads the query together with each passage that the first look found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clearhead.errors import WrongTask, require
from clearhead.pipelines.search.ranking import Ranking, best

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

_RELEVANT = ("relevant", "relevance", "entailment", "yes", "true")


def relevance(model: "Model", query: str, passages: Sequence[str]) -> list[float]:
    """How well each passage answers the query.

    The score is the head's single output, or the probability of the label that means yes: relevant, entailment, ….
    """
    found = model.compare(query, passages)
    if not found:
        return []
    labels = list(found[0].scores)
    chosen = labels if len(labels) == 1 else [label for label in labels if label.lower() in _RELEVANT]
    require(
        len(chosen) == 1,
        f"a model with the labels {', '.join(sorted(labels))} cannot re-rank; it needs one output, or one label among "
        f"{', '.join(_RELEVANT)}",
        WrongTask,
    )
    return [one.scores[chosen[0]] for one in found]


def rerank(model: "Model", query: str, passages: Sequence[str], ranking: Ranking, top: int) -> Ranking:
    """Order the passages of a ranking by their relevance; `passages` are their texts, in its order."""
    found = best(np.array(relevance(model, query, passages), np.float32), top)
    return Ranking(ranking.places[found.places], found.scores)
