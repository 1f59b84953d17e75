"""How well each class is found: precision, recall, F1 and support, which is taken for which, and what a score means."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import BadInput, check_lengths, require

BINS = 10  # of scores, where calibration is measured


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How often a class (or a type of span) is in the data, how often it was found, and how often both; in percent."""

    gold: int
    found: int
    correct: int

    @property
    def precision(self) -> float:
        """The share of the found ones that are right."""
        return 100 * self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold ones that were found."""
        return 100 * self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 200 * self.correct / (self.gold + self.found) if self.correct else 0.0

    def to_dict(self) -> dict[str, float]:
        """As JSON has it; the support is how often the data has it."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.gold}


def class_scores(
    gold: Sequence[Iterable[str]], predicted: Sequence[Iterable[str]], labels: Sequence[str]
) -> dict[str, ClassScore]:
    """Score each label by itself, in the order given; every item has any number of labels on either side."""
    check_lengths(gold, predicted)
    in_gold, found, correct = Counter[str](), Counter[str](), Counter[str]()
    for truth, guess in zip(gold, predicted, strict=True):
        in_gold.update(truth)
        found.update(guess)
        correct.update(set(truth) & set(guess))
    return {label: ClassScore(in_gold[label], found[label], correct[label]) for label in labels}


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of items: a row for each label of the data, a column for each that was predicted."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def mistakes(self) -> list[tuple[str, str, int]]:
        """Gold label, predicted label, and how often; the most frequent first."""
        found = [
            (gold, guess, count)
            for gold, row in zip(self.labels, self.counts, strict=True)
            for guess, count in zip(self.labels, row, strict=True)
            if count and gold != guess
        ]
        return sorted(found, key=lambda mistake: -mistake[2])

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"labels": list(self.labels), "counts": [list(row) for row in self.counts]}


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Confusion:
    """Count which label is taken for which; `labels` says the order, and holds all that occur."""
    check_lengths(gold, predicted)
    pairs = Counter(zip(gold, predicted, strict=True))
    return Confusion(tuple(labels), tuple(tuple(pairs[one, other] for other in labels) for one in labels))


def calibration_error(right: Sequence[bool], scores: Sequence[float]) -> float:
    """The expected calibration error in percent: how far scores are from the share of answers that are right.

    Answers are put into ten bins of equal width by their score; of each bin the distance between its mean score and the
    share that is right counts by its number of answers (Guo et al. 2017).

    >>> round(calibration_error([True, True, True, False], [0.9, 0.9, 0.9, 0.9]), 1)
    15.0
    """
    check_lengths(right, scores)
    require(
        bool(scores) and all(0 <= score <= 1 for score in scores),
        "calibration is measured of scores from 0 to 1; give at least one answer, with its probability",
        BadInput,
    )
    gaps = [0.0] * BINS  # sums of score - right: their absolute values are counts times distances of means
    for hit, score in zip(right, scores, strict=True):
        gaps[min(int(score * BINS), BINS - 1)] += score - hit
    return 100 * sum(map(abs, gaps)) / len(scores)
