"""Ranked retrieval as trec_eval defines it, each metric a mean over the judged queries.

Ties: documents of equal score are ranked by name, the larger name first, whatever the order of the rows.
A query without any relevant document counts 0; where the custom is to leave such queries out (WikiQA), drop them first.
"""

import math
from collections.abc import Callable, Mapping

from clearhead.errors import BadInput, check_ids, require

Judgements = Mapping[str, Mapping[str, int]]  # query -> document -> relevance; 0 or less, or absent: not relevant
Run = Mapping[str, Mapping[str, float]]  # query -> document -> score; queries without judgements are not counted


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The documents, best first."""
    wrong = next((name for name, score in scores.items() if math.isnan(score)), None)
    require(wrong is None, f"The score of document {wrong!r} is nan; give a number.", BadInput)
    return sorted(scores, key=lambda name: (scores[name], name), reverse=True)


def reciprocal_rank(judgements: Judgements, run: Run) -> float:
    """MRR: one over the rank of the first relevant document, 0 if none was found."""

    def of_query(relevant: Mapping[str, int], ranking: list[str]) -> float:
        return next((1 / rank for rank, name in enumerate(ranking, 1) if name in relevant), 0.0)

    return _mean(judgements, run, of_query)


def average_precision(judgements: Judgements, run: Run) -> float:
    """MAP: the precision at each relevant document's rank, over all relevant ones; those not found add 0."""

    def of_query(relevant: Mapping[str, int], ranking: list[str]) -> float:
        ranks = [rank for rank, name in enumerate(ranking, 1) if name in relevant]
        return math.fsum(found / rank for found, rank in enumerate(ranks, 1)) / len(relevant)

    return _mean(judgements, run, of_query)


def ndcg(judgements: Judgements, run: Run, k: int) -> float:
    """nDCG at k: relevance over log2(rank + 1), as a share of what the best possible ranking gets."""
    _check(k)

    def of_query(relevant: Mapping[str, int], ranking: list[str]) -> float:
        gained = _discounted([relevant.get(name, 0) for name in ranking[:k]])
        return gained / _discounted(sorted(relevant.values(), reverse=True)[:k])

    return _mean(judgements, run, of_query)


def recall(judgements: Judgements, run: Run, k: int) -> float:
    """The share of all relevant documents among the first k."""
    _check(k)
    return _mean(
        judgements, run, lambda relevant, ranking: sum(name in relevant for name in ranking[:k]) / len(relevant)
    )


def precision(judgements: Judgements, run: Run, k: int) -> float:
    """The relevant documents among the first k, over k, even where fewer than k were found."""
    _check(k)
    return _mean(judgements, run, lambda relevant, ranking: sum(name in relevant for name in ranking[:k]) / k)


def _mean(judgements: Judgements, run: Run, of_query: Callable[[Mapping[str, int], list[str]], float]) -> float:
    require(bool(judgements), "There is no judged query; give at least one.", BadInput)
    check_ids(judgements, run, "ranking")
    total = []
    for query, judged in judgements.items():
        relevant = {name: grade for name, grade in judged.items() if grade > 0}
        total.append(of_query(relevant, ranked(run[query])) if relevant else 0.0)
    return math.fsum(total) / len(total)


def _discounted(gains: list[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _check(k: int) -> None:
    require(k > 0, f"k is {k}; look at 1 or more documents.", BadInput)
