"""The words of a plain text as taggers learn them: what a tokenizer parts at punctuation and a reader does not."""

import re
from collections.abc import Sequence
from itertools import groupby

from clearhead.text.encoding import Span

_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # U.S, before its last full stop
_CLITICS = {"s", "t", "d", "m", "re", "ve", "ll"}  # it's, don't: words of their own, with their apostrophe
_APOSTROPHES, _HYPHENS, _POINTS = {"'", "’"}, {"-", "&", "/", "_"}, {".", ",", ":"}
_NEAR = 8  # characters that are looked at before and behind, so that time grows with the length of a text and no faster
_LONGEST = 100  # characters of a word, for the same reason
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # each is a word already


def join_words(text: str, spans: Sequence[Span], words: Sequence[int]) -> list[int]:
    """Number the words anew, for each piece of a text: U.S., C. Cairns, O'Brien, AT&T and 12:30 are not parted."""
    found: list[int] = []
    units: list[Span] = []  # the tokenizer's words
    sizes: list[int] = []
    for _, group in groupby(zip(words, spans, strict=True), key=lambda piece: piece[0]):
        places = [span for _, span in group]
        units.append((places[0][0], places[-1][1]))
        sizes.append(len(places))
    begin = number = 0
    for i, size in enumerate(sizes):
        if i and not _holds(text, units, begin, i):
            begin, number = i, number + 1
        found += [number] * size
    return found


def _holds(text: str, units: Sequence[Span], begin: int, i: int) -> bool:
    """Whether unit i belongs to the word that began with unit `begin` and goes up to it."""
    (start, end), (last, before) = units[i], units[i - 1]
    if start != before or before - units[begin][0] > _LONGEST:
        return False
    sign, word = text[start:end], text[units[begin][0] : before]
    after = text[end : units[i + 1][1]] if i + 1 < len(units) and units[i + 1][0] == end else ""
    if _is_word(sign):
        clitic = text[last:before] in _APOSTROPHES and sign.lower() in _CLITICS
        return clitic or (begin < i - 1 and not _is_word(text[last:before]))
    if not _is_word(text[last:before]):
        return False
    follows = text[end : end + _NEAR].lstrip()
    if sign == "." and word.isdigit() and _opens_a_line(text, units[begin][0]):
        return bool(follows)  # 1. of a list
    if sign == "." and _INITIALS.fullmatch(word):
        return "." in word or _is_word(after) or (word.isupper() and follows[:1].isupper())
    if not _is_word(after):
        return False
    if sign in _APOSTROPHES:
        return after.lower() not in _CLITICS
    if sign in _POINTS:
        return (word[-1].isdigit() and after[0].isdigit()) or (sign == "." and after[0].islower())
    return sign in _HYPHENS


def _opens_a_line(text: str, place: int) -> bool:
    before = text[max(place - _NEAR, 0) : place].rstrip(" \t")
    return before.endswith("\n") or (not before and place < _NEAR)


def _is_word(part: str) -> bool:
    return bool(part) and part[0].isalnum() and not _IDEOGRAPHS.match(part)
