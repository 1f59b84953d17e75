"""What a vocabulary of small letters loses: whether a word has capitals (Paris, iPhone) or nothing else (NATO)."""

from itertools import groupby

from clearhead.text.encoding import Span

KINDS = ("none", "some", "all")  # names of the kinds, in order


def capitals_of(text: str, offsets: list[Span], words: list[int]) -> list[int]:
    """For each piece, the kind of its word: 0 without capitals, 1 with some, 2 of nothing else."""
    found: list[int] = []
    for _, group in groupby(zip(words, offsets, strict=True), key=lambda piece: piece[0]):
        spans = [span for _, span in group]
        found += [_kind(text[spans[0][0] : spans[-1][1]])] * len(spans)
    return found


def _kind(word: str) -> int:
    if word == word.lower():
        return 0
    return 2 if len(word) > 1 and word.isupper() else 1
