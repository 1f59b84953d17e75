"""Spans in tagged sentences, scored as the perl script conlleval (version of 2004-01-26) scores them, in percent.

One set of rules reads IOB1, IOB2 and IOBES, well-formed or not: a span starts after O, at a change of type, at B or S,
and after E or S. Where the script has no rule (S, and B after E) ours are those that IOBES needs.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from clearhead.errors import BadInput, check_lengths, require
from clearhead.evaluation.classes import ClassScore

Span = tuple[int, int, str]  # first token, one past the last, type


@dataclass(frozen=True, kw_only=True, slots=True)
class Conll:
    """The score over all spans, for each type, and the share of tokens whose tag is right."""

    overall: ClassScore
    types: dict[str, ClassScore]
    accuracy: float
    tokens: int

    def metrics(self) -> dict[str, float]:
        """F1, precision and recall of all spans, and the accuracy, in percent."""
        spans = {"f1": self.overall.f1, "precision": self.overall.precision, "recall": self.overall.recall}
        return {**spans, "accuracy": self.accuracy}

    def report(self) -> str:
        """The lines that conlleval prints."""
        lines = [
            f"processed {self.tokens} tokens with {self.overall.gold} phrases; "
            f"found: {self.overall.found} phrases; correct: {self.overall.correct}.",
            f"accuracy: {self.accuracy:6.2f}%; {_formatted(self.overall)}",
        ]
        lines += [f"{name:>17}: {_formatted(score)}  {score.found}" for name, score in self.types.items()]
        return "\n".join(lines) + "\n"


def conlleval(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Conll:
    """Score predicted tags by the spans they mean; both are lists of sentences, each a list of tags."""
    check_lengths(gold, predicted, "predicted sentences")
    in_gold, found, correct = Counter[str](), Counter[str](), Counter[str]()
    right: list[bool] = []
    for row, (truth, guess) in enumerate(zip(gold, predicted, strict=True)):
        message = f"Sentence {row} has {len(truth)} gold and {len(guess)} predicted tags; give one tag for each token."
        require(len(truth) == len(guess), message, BadInput)
        right += [a == b for a, b in zip(truth, guess, strict=True)]
        theirs, ours = _span_set(tuple(truth)), _span_set(tuple(guess))
        for counter, group in ((in_gold, theirs), (found, ours), (correct, theirs & ours)):
            counter.update(name for _, _, name in group)
    require(bool(right), "The sentences have no tokens; give at least one.", BadInput)
    return Conll(
        overall=ClassScore(in_gold.total(), found.total(), correct.total()),
        types={name: ClassScore(in_gold[name], found[name], correct[name]) for name in sorted(in_gold | found)},
        accuracy=100 * math.fsum(right) / len(right),
        tokens=len(right),
    )


@lru_cache(2**15)  # a bootstrap counts the same sentences many times
def _span_set(tags: tuple[str, ...]) -> frozenset[Span]:
    return frozenset(spans(tags))


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of one sentence, from left to right."""
    found: list[Span] = []
    start, before, before_type = 0, "O", ""
    for position, (prefix, name) in enumerate([*map(_split, tags), ("O", "")]):
        begins = before in "OES" or prefix in "BS" or name != before_type
        if before != "O" and (prefix == "O" or begins):
            found.append((start, position, before_type))
        if prefix != "O" and begins:
            start = position
        before, before_type = prefix, name
    return found


def _split(tag: str) -> tuple[str, str]:
    prefix, _, name = tag.partition("-")  # a type may hold further hyphens
    known = len(prefix) == 1 and prefix in "BIOES" and (prefix != "O" or tag == "O")
    require(known, f"{tag!r} is not a tag; write O, or B-, I-, E- or S- and a type, such as B-PER.", BadInput)
    return prefix, name


def _formatted(score: ClassScore) -> str:
    return f"precision: {score.precision:6.2f}%; recall: {score.recall:6.2f}%; FB1: {score.f1:6.2f}"
