"""How far a metric may be off by the choice of examples: intervals by the bootstrap (Efron 1979).

Examples are drawn with replacement, as many as there are, and the metric is computed again, of a corpus as of its mean:
BLEU, the F1 of spans and correlations are no means over examples.
"""

# U units that are drawn: most often examples · S samples

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.examples import QuestionExample, TextExample
from clearhead.errors import BadInput, require
from clearhead.evaluation.scores import Evaluated, Known, Metrics, Prediction
from clearhead.io import Progress

LEVEL = 95.0  # percent of the samples lie inside
Interval = tuple[float, float]
Score = Callable[[Sequence[Any], Sequence[Prediction], Known], Evaluated]


@dataclass(frozen=True)
class Resampling:
    """What is drawn: so many units, and the metrics of any of them, each as often as it is named."""

    units: int
    metrics: Callable[[NDArray[np.int64]], Metrics]


Resample = Callable[[Score, Sequence[Any], Sequence[Prediction], Known], Resampling]


def by_example(score: Score, examples: Sequence[Any], rows: Sequence[Prediction], known: Known) -> Resampling:
    """Draw examples. A sample without one of the classes is measured as one of a task that has it."""
    if known is None and examples and isinstance(examples[0], TextExample):
        known = tuple(score(examples, rows, known).classes) or None

    def metrics(drawn: NDArray[np.int64]) -> Metrics:
        chosen = drawn.tolist()
        return score([examples[i] for i in chosen], [rows[i] for i in chosen], known).metrics

    return Resampling(len(examples), metrics)


def by_question(
    score: Score, examples: Sequence[QuestionExample], rows: Sequence[Prediction], known: Known
) -> Resampling:
    """Draw questions, which have ids: one that is drawn twice is two."""

    def metrics(drawn: NDArray[np.int64]) -> Metrics:
        chosen = [replace(examples[i], id=str(place)) for place, i in enumerate(drawn.tolist())]
        return score(chosen, [rows[i] for i in drawn.tolist()], known).metrics

    return Resampling(len(examples), metrics)


def by_query(score: Score, examples: Sequence[TextExample], rows: Sequence[Prediction], known: Known) -> Resampling:
    """Draw queries, each with all of its passages."""
    places: dict[str, list[int]] = {}
    for place, example in enumerate(examples):
        places.setdefault(example.text, []).append(place)
    queries = [ranked for ranked in places.values() if any(examples[i].label for i in ranked)]

    def metrics(drawn: NDArray[np.int64]) -> Metrics:
        chosen = [(number, i) for number, query in enumerate(drawn.tolist()) for i in queries[query]]
        return score(
            [replace(examples[i], text=str(number)) for number, i in chosen], [rows[i] for _, i in chosen], known
        ).metrics

    return Resampling(len(queries), metrics)


def intervals(
    resampling: Resampling, metrics: Metrics, samples: int, seed: int = 0, *, progress: Progress | None = None
) -> dict[str, Interval]:
    """The middle 95 % of each metric over `samples` draws; a count has no interval, nor has what is never defined.

    The draws depend on `seed` and the number of units alone, so that two models are compared on the same ones.
    """
    from clearhead.data.rng import Stream, rng  # here, since metrics of files need no torch

    least = f"an interval of {LEVEL:g} % needs 100 samples or more, got {samples}; 1000 is usual"
    require(samples >= 100, least, BadInput)
    require(resampling.units > 1, "one example alone has no interval; give more", BadInput)
    names = [name for name, value in metrics.items() if isinstance(value, float)]
    table = np.full((samples, len(names)), np.nan)  # (S, metrics)
    for number in range(samples):
        drawn = rng(Stream.BOOTSTRAP, seed, number).integers(resampling.units, size=resampling.units)
        found = resampling.metrics(drawn)
        table[number] = [found.get(name, np.nan) for name in names]
        if progress is not None:
            progress(1)
    outside = (100 - LEVEL) / 2
    result = {}
    for name, column in zip(names, table.T, strict=True):
        defined = column[~np.isnan(column)]
        if len(defined):
            low, high = np.percentile(defined, [outside, 100 - outside]).tolist()
            result[name] = (low, high)
    return result
