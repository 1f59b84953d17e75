"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) by the rules of evaluate-v1.1.py and evaluate-v2.0.py, in percent.

One difference, in `best_threshold`: questions with equal no-answer probabilities are decided together, so that the
best score is one that the threshold really gives. The script stops between them, at a score that depends on row order.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from clearhead.data.examples import QuestionExample
from clearhead.errors import BadInput, require
from clearhead.evaluation.checks import all_there

Golds = Mapping[str, Sequence[str]]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def golds_of(questions: Iterable[QuestionExample]) -> dict[str, list[str]]:
    """Take the accepted answers of each question id; none for a question that is said to have no answer."""
    golds: dict[str, list[str]] = {}
    for question in questions:
        known = bool(question.answers) or question.impossible
        require(
            known, f"Question {question.id!r} has no answer to compare with, and is not said to have none.", BadInput
        )
        golds[question.id] = [text for text, _ in question.answers]
    return golds


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(gold: str, predicted: str) -> float:
    """Give 1 if both are the same after normalisation, otherwise 0."""
    return float(normalise(gold) == normalise(predicted))


def f1(gold: str, predicted: str) -> float:
    """Compare two answers as bags of words; 0 if they share none, even if both are empty."""
    gold_words, predicted_words = normalise(gold).split(), normalise(predicted).split()
    shared = (Counter(gold_words) & Counter(predicted_words)).total()
    return 2 * shared / (len(gold_words) + len(predicted_words)) if shared else 0.0


def f1_or_none(gold: str, predicted: str) -> float:
    """Compare as SQuAD 2.0 does: as `f1`, but two empty answers agree."""
    return f1(gold, predicted) or float(not normalise(gold) and not normalise(predicted))


def squad1(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """Give SQuAD 1.1's `exact_match` and `f1`: for each question the best over its accepted answers."""
    _check(golds, predictions)
    for name, texts in golds.items():
        require(bool(texts), f"Question {name!r} has no accepted answer, which SQuAD 2.0 allows: use squad2.", BadInput)
    exact, overlap = (_best_over_golds(golds, predictions, metric) for metric in (exact_match, f1))
    return {"exact_match": _percent(exact), "f1": _percent(overlap)}


def squad2(
    golds: Golds,
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Give SQuAD 2.0's figures under its own names, HasAns_ and NoAns_ apart; an empty prediction abstains.

    no_answer: a probability (or any score) for each question; above the threshold the prediction counts as empty.
    With it, the best threshold for each metric is searched too.
    """
    _check(golds, predictions)
    if no_answer is not None:
        all_there(golds, no_answer, "no-answer probability")
        wrong = next((name for name in golds if not math.isfinite(no_answer[name])), None)
        require(wrong is None, f"The no-answer probability of {wrong!r} is not a finite number; give one.", BadInput)
    # an answer of nothing but articles and punctuation is none, though its question counts among those with one
    accepted = {name: [text for text in texts if normalise(text)] or [""] for name, texts in golds.items()}
    exact = _best_over_golds(accepted, predictions, exact_match)
    overlap = _best_over_golds(accepted, predictions, f1_or_none)
    abstained = {name: float(not texts) for name, texts in golds.items()}
    odds = dict.fromkeys(golds, 0.0) if no_answer is None else no_answer
    parts = {"": set(golds), "HasAns_": {n for n in golds if golds[n]}, "NoAns_": {n for n in golds if not golds[n]}}

    figures: dict[str, float] = {}
    for prefix, names in parts.items():
        if not names:
            continue
        for metric, scores in (("exact", exact), ("f1", overlap)):
            decided = {n: abstained[n] if odds[n] > threshold else scores[n] for n in golds if n in names}
            figures[prefix + metric] = _percent(decided)
        figures[f"{prefix}total"] = len(names)
    if no_answer is not None:
        for metric, scores in (("exact", exact), ("f1", overlap)):
            best, at = best_threshold(scores, abstained, no_answer)
            figures |= {f"best_{metric}": best, f"best_{metric}_thresh": at}
    return figures


def best_threshold(
    answered: Mapping[str, float], abstained: Mapping[str, float], no_answer: Mapping[str, float]
) -> tuple[float, float]:
    """Search the no-answer threshold with the highest mean score, in percent; the lowest of equally good ones.

    answered, abstained: what each question scores with its answer, and without one.
    """
    ordered = sorted(answered, key=lambda name: no_answer[name])
    lowest = no_answer[ordered[0]]
    best = current = math.fsum(abstained.values())
    at = 0.0 if lowest > 0 else math.nextafter(lowest, -math.inf)  # nobody is answered below it
    for value, names in groupby(ordered, key=lambda name: no_answer[name]):
        current += math.fsum(answered[name] - abstained[name] for name in names)
        if current > best + 1e-9:  # not a rounding error
            best, at = current, value
    return 100 * best / len(answered), at


def _best_over_golds(
    golds: Golds, predictions: Mapping[str, str], metric: Callable[[str, str], float]
) -> dict[str, float]:
    return {name: max(metric(text, predictions[name]) for text in texts) for name, texts in golds.items()}


def _percent(scores: Mapping[str, float]) -> float:
    return 100 * math.fsum(scores.values()) / len(scores)


def _check(golds: Golds, predictions: Mapping[str, str]) -> None:
    require(bool(golds), "There is no question to score; give at least one.", BadInput)
    all_there(golds, predictions, "prediction")
