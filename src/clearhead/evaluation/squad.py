"""SQuAD 1.1 and 2.0 by the rules of the official scripts, in percent; prediction files and n-best lists."""

import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.data.examples import QuestionExample
from clearhead.errors import BadInput, check_ids, require
from clearhead.io import read_json, write_text

Golds = Mapping[str, Sequence[str]]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_KEPT = 2**16  # pairs of answers that are not compared again, as a bootstrap would do many times
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def golds_of(questions: Iterable[QuestionExample]) -> dict[str, list[str]]:
    """Take the accepted answers of each question id; none for a question that is said to have no answer."""
    golds: dict[str, list[str]] = {}
    for question in questions:
        message = f"Question {question.id!r} has no answer to compare with, and is not said to have none."
        require(bool(question.answers) or question.impossible, message, BadInput)
        golds[question.id] = [text for text, _ in question.answers]
    return golds


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


@lru_cache(_KEPT)
def exact_match(gold: str, predicted: str) -> float:
    """Give 1 if both are the same after normalisation, otherwise 0."""
    return float(normalise(gold) == normalise(predicted))


@lru_cache(_KEPT)
def f1(gold: str, predicted: str) -> float:
    """Compare two answers as bags of words; 0 if they share none, even if both are empty."""
    gold_words, predicted_words = normalise(gold).split(), normalise(predicted).split()
    shared = (Counter(gold_words) & Counter(predicted_words)).total()
    return 2 * shared / (len(gold_words) + len(predicted_words)) if shared else 0.0


@lru_cache(_KEPT)
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
    golds: Golds, predictions: Mapping[str, str], no_answer: Mapping[str, float] | None = None, threshold: float = 1.0
) -> dict[str, float]:
    """Give SQuAD 2.0's metrics under its own names, HasAns_ and NoAns_ apart; an empty prediction abstains.

    no_answer: a probability (or any score) for each question; above the threshold the prediction counts as empty.
    With it, the best threshold for each metric is searched too.
    """
    _check(golds, predictions)
    if no_answer is not None:
        check_ids(golds, no_answer, "no-answer probability")
        wrong = next((name for name in golds if not math.isfinite(no_answer[name])), None)
        require(wrong is None, f"The no-answer probability of {wrong!r} is not a finite number; give one.", BadInput)
    # an answer of nothing but articles and punctuation is none, though its question counts among those with one
    accepted = {name: [text for text in texts if normalise(text)] or [""] for name, texts in golds.items()}
    exact = _best_over_golds(accepted, predictions, exact_match)
    overlap = _best_over_golds(accepted, predictions, f1_or_none)
    abstained = {name: float(not texts) for name, texts in golds.items()}
    odds = dict.fromkeys(golds, 0.0) if no_answer is None else no_answer
    parts = {"": list(golds), "HasAns_": [n for n in golds if golds[n]], "NoAns_": [n for n in golds if not golds[n]]}
    metrics: dict[str, float] = {}
    for prefix, names in parts.items():
        if not names:
            continue
        for metric, scores in (("exact", exact), ("f1", overlap)):
            metrics[prefix + metric] = _percent({n: abstained[n] if odds[n] > threshold else scores[n] for n in names})
        metrics[f"{prefix}total"] = len(names)
    if no_answer is not None:
        for metric, scores in (("exact", exact), ("f1", overlap)):
            best, at = best_threshold(scores, abstained, no_answer)
            metrics |= {f"best_{metric}": best, f"best_{metric}_thresh": at}
    return metrics


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
    check_ids(golds, predictions, "prediction")


LISTED = 20  # candidates of a question, as many as BERT's script writes


class ScoredText(NamedTuple):
    """A candidate of an n-best file: a possible answer and its logit; the empty text stands for no answer."""

    text: str
    score: float


NBest = Mapping[str, Sequence[ScoredText]]


def decide(nbest: NBest) -> tuple[dict[str, str], dict[str, float]]:
    """Give the best non-empty answer of each question and, as BERT's null odds, how far no answer scores above it.

    Both go into `squad2`. Every list needs a candidate "": without its score there is nothing to compare.
    """
    odds: dict[str, float] = {}
    for name, candidates in nbest.items():
        nothing = max((candidate.score for candidate in candidates if not candidate.text), default=None)
        if nothing is None:
            raise BadInput(f"Question {name!r} has no empty candidate; add one with the score of no answer.")
        odds[name] = nothing - max((candidate.score for candidate in candidates if candidate.text), default=nothing)
    return best_texts(nbest), odds


def best_texts(nbest: NBest) -> dict[str, str]:
    """Give the best answer of each question where every question has one, as in SQuAD 1.1."""
    none = ScoredText("", -math.inf)
    return {
        name: max((one for one in candidates if one.text), key=lambda one: one.score, default=none).text
        for name, candidates in nbest.items()
    }


def predictions_of(golds: Golds, nbest: NBest, threshold: float = 0.0) -> dict[str, str]:
    """Give one text for each question; the empty one, where some have no answer, if none scores higher by so much."""
    if all(golds.values()):
        return best_texts(nbest)
    texts, odds = decide(nbest)
    return {name: "" if odds[name] > threshold else text for name, text in texts.items()}


def score_nbest(golds: Golds, nbest: NBest, threshold: float = 0.0) -> dict[str, float]:
    """Score the best candidates: by SQuAD 1.1, or by 2.0 with the best threshold where a question has no answer."""
    check_ids(golds, nbest, "list of candidates")
    if all(golds.values()):
        return squad1(golds, best_texts(nbest))
    return squad2(golds, *decide(nbest), threshold=threshold)


def oracle(golds: Golds, nbest: NBest, n: int) -> dict[str, float]:
    """Score by SQuAD 2.0 as if the best of each question's first n candidates had been chosen: an upper bound."""
    require(n > 0, f"n is {n}; look at 1 or more candidates.", BadInput)
    check_ids(golds, nbest, "list of candidates")

    def worth(texts: Sequence[str], candidate: str) -> tuple[float, float]:
        alone = squad2({"": texts}, {"": candidate})
        return alone["f1"], alone["exact"]

    chosen: dict[str, str] = {}
    for name, texts in golds.items():
        candidates = nbest[name][:n]
        require(bool(candidates), f"Question {name!r} has no candidate; give at least an empty answer.", BadInput)
        chosen[name] = max((one.text for one in candidates), key=lambda text: worth(texts, text))
    return squad2(golds, chosen)


def read_predictions(path: str | Path) -> dict[str, str]:
    """SQuAD predictions: an object with the answer's text for each id."""
    return _read(path, "a text", lambda value: isinstance(value, str))


def read_no_answer(path: str | Path) -> dict[str, float]:
    """SQuAD 2.0's na_prob file: an object with the no-answer probability for each id."""
    return {name: float(value) for name, value in _read(path, "a number", _is_number).items()}


def read_nbest(path: str | Path) -> dict[str, list[ScoredText]]:
    """Candidates for each id, as `write_nbest` has them; or as BERT has, with start_logit and end_logit for a score."""
    content = _read(path, "a list of candidates", lambda value: isinstance(value, list))
    return {name: [_candidate(item, f"{path}, question {name!r}") for item in given] for name, given in content.items()}


def _candidate(item: Any, where: str) -> ScoredText:
    record = item if isinstance(item, dict) else {}
    logits: list[Any] = [
        record.get(name) for name in (["score"] if "score" in record else ["start_logit", "end_logit"])
    ]
    message = f"{where} has the candidate {item!r}; give a text and a score, or start_logit and end_logit."
    require(isinstance(record.get("text"), str) and all(map(_is_number, logits)), message, BadInput)
    return ScoredText(record["text"], float(sum(logits)))


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _read(path: str | Path, what: str, fits: Callable[[Any], bool]) -> dict[str, Any]:
    content = read_json(path)
    good = isinstance(content, dict) and all(map(fits, content.values()))
    require(good, f"{path} must hold one JSON object that gives {what} for each question id.", BadInput)
    return dict(content)


def write_predictions(path: str | Path, predictions: Mapping[str, str], *, overwrite: bool = False) -> None:
    """Write answers as `read_predictions` and the official scripts read them."""
    write_text(json.dumps(dict(predictions), ensure_ascii=False, indent=1) + "\n", Path(path), overwrite=overwrite)


def write_nbest(path: str | Path, nbest: NBest, *, overwrite: bool = False) -> None:
    """Write the candidates of each question, best first."""
    lists = {name: [candidate._asdict() for candidate in given] for name, given in nbest.items()}
    write_text(json.dumps(lists, ensure_ascii=False, indent=1) + "\n", Path(path), overwrite=overwrite)


def write_no_answer(path: str | Path, odds: Mapping[str, float], *, overwrite: bool = False) -> None:
    """Write null odds as `read_no_answer` and the official script read them."""
    write_text(json.dumps(dict(odds), indent=1) + "\n", Path(path), overwrite=overwrite)


_ALONE = "a file of --nbest is scored alone; leave --predictions and --no-answer out, or name a --model to write all"


def score_files(
    examples: Sequence[QuestionExample],
    *,
    predictions: Path | None = None,
    nbest: Path | None = None,
    no_answer: Path | None = None,
) -> dict[str, float]:
    """Score a file of predictions, with or without no-answer probabilities, or a file of candidates.

    By SQuAD 1.1, or by 2.0 where a question has no answer. Of candidates also what the best of each list would give.
    """
    golds = golds_of(examples)
    if nbest is not None:
        alone = predictions is None and no_answer is None
        require(alone, _ALONE, BadInput)
        lists = read_nbest(nbest)
        best = oracle(golds, lists, LISTED)
        return {**score_nbest(golds, lists), "oracle_exact": best["exact"], "oracle_f1": best["f1"]}
    if predictions is None:
        raise BadInput("--no-answer goes with the answers to score; name them with --predictions FILE")
    texts = read_predictions(predictions)
    if no_answer is None and all(golds.values()):
        return squad1(golds, texts)
    return squad2(golds, texts, None if no_answer is None else read_no_answer(no_answer))
