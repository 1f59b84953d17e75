"""Lists of candidate answers, best first: what to answer, how sure to abstain, and what the list could have given."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clearhead.errors import BadInput, require
from clearhead.evaluation.checks import all_there
from clearhead.evaluation.squad import Golds, squad2


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
