"""A cross-encoder reads a query and a passage together: how probable is it that the passage is what is looked for?"""

# L outputs of the head

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import BadInput, WrongTask, require
from clearhead.io import Progress
from clearhead.pipelines.classification import class_tables
from clearhead.pipelines.results import Reranked as Reranked
from clearhead.pipelines.runner import chunks_of_text, listed
from clearhead.pipelines.search.ranking import probabilities

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

Query = tuple[str, Iterable[str]]

# labels that mean yes; of two without names, the second does
_RELEVANT = ("relevant", "relevance", "entailment", "yes", "true")
_UNNAMED = (["label_0", "label_1"], ["0", "1"])


def rerank(
    model: "Model", queries: Iterable[Query], top_k: int | None, progress: Progress | None
) -> Iterator[list[Reranked]]:
    """Order the passages of each query, (query, passages), the best first; of each query all, or the `top_k` best.

    `progress` is told of passages.
    """
    require(top_k is None or top_k > 0, f"top_k={top_k} passages cannot be given; choose 1 or more", BadInput)

    def results(chunk: list[tuple[str, list[str]]]) -> Iterator[list[Reranked]]:
        for (_, passages), odds in zip(chunk, readings(model, chunk, progress), strict=True):
            order = np.argsort(-odds, kind="stable")[:top_k].tolist()
            scores = probabilities(odds).tolist()
            yield [Reranked(passages[place], place, scores[place]) for place in order]

    return chain.from_iterable(map(results, chunks_of_text(map(_checked, queries))))


def _checked(given: Query) -> tuple[str, list[str]]:
    pair = isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str)
    require(pair, f"A query comes with its passages, (query, passages), not as {given!r}.", BadInput)
    query, passages = given
    require(bool(query.strip()), "the query is empty; give some words", BadInput)
    require(not isinstance(passages, str), f"Passages must be a list of texts, not {passages!r}.", BadInput)
    return query, list(listed(passages))


def check_reranks(model: "Model") -> None:
    """Refuse a model that reads no pairs."""
    reads = "classes" in getattr(model.network, "heads", ())
    told = "this model cannot rerank: it has neither a skill for that nor a head for classes of pairs"
    require(reads, f"{told}; choose a cross-encoder, as with --model or --rerank-with", WrongTask)


def readings(
    model: "Model", queries: Sequence[tuple[str, Sequence[str]]], progress: Progress | None = None
) -> Iterator[NDArray[np.float64]]:
    """The log-odds of each query's passages to be what it looks for, all read together.

    By the head's single output, or the label that means yes: relevant, entailment, …; of two without names the second.
    """
    check_reranks(model)
    pairs = ((query, one) for query, passages in queries for one in passages)
    tables = class_tables(model, pairs, progress)
    found = chain.from_iterable(_log_odds(model, logits).tolist() for logits in tables)
    return (np.fromiter(islice(found, len(passages)), np.float64, len(passages)) for _, passages in queries)


def _log_odds(model: "Model", logits: Tensor) -> Tensor:
    """log p / (1 - p) of each pair: (pairs, L) -> (pairs,)."""
    names = [label.lower() for label in model.labels or [f"label_{place}" for place in range(logits.shape[1])]]
    relevant = [place for place, name in enumerate(names) if len(names) == 1 or name in _RELEVANT]
    if names in _UNNAMED:
        relevant = [1]
    require(
        len(relevant) == 1,
        f"a model with the labels {', '.join(sorted(model.labels or names))} cannot rerank; it needs one output, "
        f"two without names, or one label among {', '.join(_RELEVANT)}",
        WrongTask,
    )
    (place,) = relevant
    exact = logits.double()
    if len(names) == 1 or model.checkpoint.description.problem == "multi_label_classification":
        return exact[:, place]
    others = [other for other in range(len(names)) if other != place]
    return exact[:, place] - exact[:, others].logsumexp(1)


# What a cross-encoder reads for one query: from the best on, passages of so many characters, the query counted with
# each. That is a second's work for two threads of a CPU with the built-in model (some 3,500 tokens): fifteen of the
# longest passages, or eighty sentences.
READ_CHARACTERS = 12_000
MOST_READ = 100  # however short


def how_many(query: str, passages: Sequence[str], least: int = 1) -> int:
    """How many of a ranking's first passages are read again."""
    sizes = np.cumsum([len(query) + len(one) for one in passages[:MOST_READ]])
    within = int(np.searchsorted(sizes, READ_CHARACTERS, side="right"))
    return min(max(within, least), len(passages))
