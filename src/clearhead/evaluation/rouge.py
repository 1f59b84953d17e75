"""ROUGE (Lin 2004) as the package rouge_score defines it, with Porter's stemmer."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from clearhead.data.formats import strings
from clearhead.data.tables import need, open_table
from clearhead.errors import BadInput, check_lengths, require
from clearhead.io import read_lines

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")

_SHORTEST_STEMMED = 4
_TABLES = (".csv", ".json", ".jsonl", ".parquet")
_COLUMNS = ("summary", "predicted", "highlights", "reference", "target", "text")


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
    check_lengths(references, summaries, "summaries")
    scores = [rouge(text, summary, stem=stem) for text, summary in zip(references, summaries, strict=True)]
    return {
        kind: RougeScore(*(math.fsum(column) / len(scores) for column in zip(*(s[kind] for s in scores), strict=True)))
        for kind in KINDS
    }


def score_summaries(references: Sequence[str], summaries: Sequence[str]) -> dict[str, float]:
    """F1 of each kind in percent, words stemmed, as summaries are usually scored."""
    return {kind: 100 * score.f1 for kind, score in mean_rouge(references, summaries, stem=True).items()}


def oracle_sentences(sentences: Sequence[str], reference: str, *, most: int) -> list[int]:
    """The sentences that a summary of at most `most` of them would best be made of, in their order: BERTSUM's labels.

    One after another, that which adds most to the F1 of the words and of the pairs of words, until none does.
    """
    wanted = [_grams(reference, n) for n in (1, 2)]
    grams = [[_grams(sentence, n) for n in (1, 2)] for sentence in sentences]
    chosen: list[int] = []
    covered: list[set[tuple[str, ...]]] = [set(), set()]
    best = 0.0
    while len(chosen) < most:
        gains = {}
        for place, own in enumerate(grams):
            if place not in chosen:
                joined = [before | more for before, more in zip(covered, own, strict=True)]
                gains[place] = sum(
                    _score(len(one & gold), len(gold), len(one)).f1 for one, gold in zip(joined, wanted, strict=True)
                )
        place = max(gains, key=gains.__getitem__, default=-1)
        if place < 0 or gains[place] <= best:
            break
        best = gains[place]
        covered = [before | more for before, more in zip(covered, grams[place], strict=True)]
        chosen.append(place)
    return sorted(chosen)


def _grams(text: str, n: int) -> set[tuple[str, ...]]:
    found = words(text)
    return set(zip(*(found[i:] for i in range(n)), strict=False))


def read_summaries(source: str | Path, column: str | None = None) -> list[str]:
    """Summaries, or references: a column of a table, or the lines of a file, behind the tab where a line has one."""
    if not str(source).startswith("hub:") and Path(source).suffix not in _TABLES:
        require(column is None, f"{source} has lines, no column {column!r}; leave the name out", BadInput)
        return [line.split("\t")[-1] for line in read_lines(Path(source))]
    table = open_table(source)
    return strings(table, need(table, "summary", column, _COLUMNS))


def words(text: str, *, stem: bool = False) -> list[str]:
    """The words that ROUGE compares; with `stem`, those of four letters and more are stemmed."""
    found = re.findall("[a-z0-9]+", text.lower())
    return [porter_stem(word) if len(word) >= _SHORTEST_STEMMED else word for word in found] if stem else found


@lru_cache(2**14)  # a bootstrap compares the same pairs many times
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
    in_wanted, in_given = (Counter(zip(*(text[i:] for i in range(n)), strict=False)) for text in (wanted, given))
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


# suffix > replacement; the first suffix that fits decides, even if its condition then forbids the change
_IRREGULAR = (
    "skies>sky sky>sky dying>die lying>lie tying>tie news>news innings>inning inning>inning outings>outing "
    "outing>outing cannings>canning canning>canning howe>howe proceed>proceed exceed>exceed succeed>succeed"
)
_STEMS = dict(rule.split(">") for rule in _IRREGULAR.split())
_STEP_1A = "sses>ss ies>i ss>ss s>"
_STEP_2 = (
    "ational>ate tional>tion enci>ence anci>ance izer>ize bli>ble alli>al entli>ent eli>e ousli>ous ization>ize "
    "ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble fulli>ful"
)
_STEP_3 = "icate>ic ative> alize>al iciti>ic ical>ic ful> ness>"
_STEP_4 = "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> ize>"


@cache
def porter_stem(word: str) -> str:
    """The stem of a lower-case English word, by Porter's steps (1980): "relational" and "relate" give "relat"."""
    if word in _STEMS or len(word) <= 2:
        return _STEMS.get(word, word)
    word = word[:-1] if word.endswith("ies") and len(word) == 4 else _replace(word, _STEP_1A, -1)
    word = _without_past(word)
    if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c":
        word = word[:-1] + "i"
    while word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    # the l of -logi counts with its stem, so that "theology" is treated as "archaeology"
    word = word[:-1] if word.endswith("logi") and _measure(word[:-3]) > 0 else _replace(word, _STEP_2, 0)
    word = _replace(word, _STEP_3, 0)
    if not word.endswith("ion") or word.endswith(("sion", "tion")):
        word = _replace(word, _STEP_4, 1)
    head = word.removesuffix("e")
    if head != word and (_measure(head) > 1 or (_measure(head) == 1 and not _is_short(head))):
        word = head
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _replace(word: str, rules: str, measure: int) -> str:
    """Replace the suffix where what stands before it has a measure above this one."""
    for rule in rules.split(" "):
        suffix, _, new = rule.partition(">")
        if word.endswith(suffix):
            head = word.removesuffix(suffix)
            return head + new if _measure(head) > measure else word
    return word


def _without_past(word: str) -> str:
    """Step 1b: take -ed or -ing away, and give back what it took: hopp > hop, fil > file, conflat > conflate."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    head = next((word.removesuffix(suffix) for suffix in ("ed", "ing") if word.endswith(suffix)), word)
    if head == word or "v" not in _shape(head):
        return word
    if head.endswith(("at", "bl", "iz")):
        return head + "e"
    if len(head) > 1 and head[-1] == head[-2] and _shape(head)[-1] == "c":
        return head if head[-1] in "lsz" else head[:-1]
    return head + "e" if _measure(head) == 1 and _is_short(head) else head


def _shape(word: str) -> str:
    """Consonants as c and vowels as v; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _is_short(word: str) -> bool:
    """Porter's *o: the word ends consonant, vowel, consonant other than w, x, y; "at" counts too."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")
