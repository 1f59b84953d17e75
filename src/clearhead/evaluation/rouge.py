"""ROUGE (Lin 2004) as the package rouge_score of google-research defines it: words of a-z and 0-9 in lower case."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from clearhead.errors import BadInput, require
from clearhead.evaluation import porter
from clearhead.evaluation.checks import same_length

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")

_SHORTEST_STEMMED = 4


class RougeScore(NamedTuple):
    """Shares between 0 and 1."""

    precision: float
    recall: float
    f1: float


def rouge(reference: str | Sequence[str], summary: str, *, stem: bool = False) -> dict[str, RougeScore]:
    """Compare a summary with a reference; of several references, each kind takes the one with the best F1.

    rougeLsum takes a line of text as a sentence.
    """
    references = [reference] if isinstance(reference, str) else list(reference)
    require(bool(references), "A summary has no reference; give at least one.", BadInput)
    all_scores = [_compare(text, summary, stem) for text in references]
    return {kind: max((scores[kind] for scores in all_scores), key=lambda score: score.f1) for kind in KINDS}


def mean_rouge(
    references: Sequence[str | Sequence[str]], summaries: Sequence[str], *, stem: bool = False
) -> dict[str, RougeScore]:
    """Average `rouge` over all summaries."""
    same_length(references, summaries, "summaries")
    scores = [rouge(text, summary, stem=stem) for text, summary in zip(references, summaries, strict=True)]
    return {
        kind: RougeScore(*(math.fsum(column) / len(scores) for column in zip(*(s[kind] for s in scores), strict=True)))
        for kind in KINDS
    }


def words(text: str, *, stem: bool = False) -> list[str]:
    """The words that ROUGE compares; with `stem`, those of four letters and more are stemmed."""
    found = re.findall("[a-z0-9]+", text.lower())
    return [porter.stem(word) if len(word) >= _SHORTEST_STEMMED else word for word in found] if stem else found


def _compare(reference: str, summary: str, stem: bool) -> dict[str, RougeScore]:
    wanted, given = words(reference, stem=stem), words(summary, stem=stem)
    wanted_lines, given_lines = ([words(line, stem=stem) for line in text.split("\n")] for text in (reference, summary))
    return {
        "rouge1": _shared_runs(wanted, given, 1),
        "rouge2": _shared_runs(wanted, given, 2),
        "rougeL": _score(len(_common_subsequence(wanted, given)), len(wanted), len(given)),
        "rougeLsum": _summary_level(wanted_lines, given_lines),
    }


def _shared_runs(wanted: list[str], given: list[str], n: int) -> RougeScore:
    in_wanted, in_given = (
        Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1)) for text in (wanted, given)
    )
    return _score((in_wanted & in_given).total(), in_wanted.total(), in_given.total())


def _summary_level(wanted: list[list[str]], given: list[list[str]]) -> RougeScore:
    """Union, over the summary's sentences, of what each shares with a reference sentence (section 3.2 of the paper)."""
    left_in_wanted, left_in_given = (Counter(word for line in lines for word in line) for lines in (wanted, given))
    n_wanted, n_given = left_in_wanted.total(), left_in_given.total()
    hits = 0
    for line in wanted:
        union = {position for other in given for position in _common_subsequence(line, other)}
        for position in sorted(union):
            word = line[position]
            # no word counts more often than it is there; the paper leaves this out, ROUGE 1.5.5 does it
            if left_in_wanted[word] > 0 and left_in_given[word] > 0:
                hits += 1
                left_in_wanted[word] -= 1
                left_in_given[word] -= 1
    return _score(hits, n_wanted, n_given)


def _common_subsequence(wanted: list[str], given: list[str]) -> list[int]:
    """The positions in `wanted` of a longest common subsequence; which one, among several, is part of rougeLsum."""
    longest = [[0] * (len(given) + 1) for _ in range(len(wanted) + 1)]
    for i, word in enumerate(wanted, 1):
        above, row = longest[i - 1], longest[i]
        for j, other in enumerate(given, 1):
            row[j] = above[j - 1] + 1 if word == other else max(above[j], row[j - 1])
    positions = []
    i, j = len(wanted), len(given)
    while i and j:
        if wanted[i - 1] == given[j - 1]:
            i, j = i - 1, j - 1
            positions.append(i)
        elif longest[i][j - 1] > longest[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return positions[::-1]


def _score(shared: int, wanted: int, given: int) -> RougeScore:
    precision, recall = shared / max(given, 1), shared / max(wanted, 1)
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0)
