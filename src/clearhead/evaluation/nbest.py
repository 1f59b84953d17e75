"""Lists of candidate answers, best first: what to answer, how sure to abstain, and what the list could have given."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clearhead.errors import BadInput, require
from clearhead.evaluation.checks import all_there
from clearhead.evaluation.squad import Golds, squad1, squad2

LISTED = 20  # candidates of a question, as many as BERT's script writes


class Candidate(NamedTuple):
    """A possible answer and its score; the empty text stands for no answer."""

    text: str
    score: float


def decide(nbest: Mapping[str, Sequence[Candidate]]) -> tuple[dict[str, str], dict[str, float]]:
    """Give the best non-empty answer of each question and, as BERT's null odds, how far no answer scores above it.

    Both go into `squad2`. Every list needs a candidate "": without its score there is nothing to compare.
    """
    predictions: dict[str, str] = {}
    odds: dict[str, float] = {}
    for name, candidates in nbest.items():
        nothing = max((candidate.score for candidate in candidates if not candidate.text), default=None)
        if nothing is None:
            raise BadInput(f"Question {name!r} has no empty candidate; add one with the score of no answer.")
        answers = [candidate for candidate in candidates if candidate.text]
        best = max(answers, key=lambda candidate: candidate.score, default=Candidate("", nothing))
        predictions[name], odds[name] = best.text, nothing - best.score
    return predictions, odds


def best_texts(nbest: Mapping[str, Sequence[Candidate]]) -> dict[str, str]:
    """Give the best answer of each question where every question has one, as in SQuAD 1.1."""
    ranked = {name: sorted(given, key=lambda candidate: -candidate.score) for name, given in nbest.items()}
    return {name: next((candidate.text for candidate in given if candidate.text), "") for name, given in ranked.items()}


def predictions_of(golds: Golds, nbest: Mapping[str, Sequence[Candidate]]) -> dict[str, str]:
    """Give one text for each question; the empty one, where some have no answer, if none scores highest."""
    if all(golds.values()):
        return best_texts(nbest)
    texts, odds = decide(nbest)
    return {name: "" if odds[name] > 0 else text for name, text in texts.items()}


def score_nbest(golds: Golds, nbest: Mapping[str, Sequence[Candidate]]) -> dict[str, float]:
    """Score the best candidates: by SQuAD 1.1, or by 2.0 with the best threshold where a question has no answer."""
    all_there(golds, nbest, "list of candidates")
    if all(golds.values()):
        return squad1(golds, best_texts(nbest))
    return squad2(golds, *decide(nbest), threshold=0.0)


def oracle(golds: Golds, nbest: Mapping[str, Sequence[Candidate]], n: int) -> dict[str, float]:
    """Score by SQuAD 2.0 as if the best of each question's first n candidates had been chosen: an upper bound."""
    require(n > 0, f"n is {n}; look at 1 or more candidates.", BadInput)
    all_there(golds, nbest, "list of candidates")
    chosen: dict[str, str] = {}
    for name, texts in golds.items():
        candidates = nbest[name][:n]
        require(bool(candidates), f"Question {name!r} has no candidate; give at least an empty answer.", BadInput)
        chosen[name] = max((c.text for c in candidates), key=lambda text: _worth(texts, text))
    return squad2(golds, chosen)


def _worth(texts: Sequence[str], candidate: str) -> tuple[float, float]:
    figures = squad2({"": texts}, {"": candidate})
    return figures["f1"], figures["exact"]
