"""A text in portions that a model reads at once: whole sentences, and words where a sentence is too long."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clearhead.data.sentences import sentence_spans
from clearhead.errors import BadInput, require
from clearhead.text import Tokenizer

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Portions:
    """A text's portions, text[start:end], with nothing but white space between them."""

    text: str
    spans: tuple[Span, ...]

    @property
    def texts(self) -> list[str]:
        """The portions."""
        return [self.text[start:end] for start, end in self.spans]

    def join(self, written: Sequence[str]) -> str:
        """Put what was written for each portion together, with the text's own white space between."""
        ends = [0, *(end for _, end in self.spans)]
        gaps = [self.text[end:start] for end, (start, _) in zip(ends, self.spans, strict=False)]
        # a sentence that was cut where no space stands still needs one
        parts = [(gap or " ") + new for gap, new in zip(gaps[1:], written[1:], strict=True)]
        return "".join([*written[:1], *parts])


def portions(tokenizer: Tokenizer, text: str, limit: int, *, whole: bool = False) -> Portions:
    """Cut a text into sentences of at most `limit` tokens, or with `whole` into as few portions as hold so many."""
    require(limit > 0, f"{limit} tokens hold no portion of a text; give 1 or more", BadInput)
    fine: list[tuple[Span, int]] = []
    for start, end in sentence_spans(text):
        offsets = tokenizer.pieces(text[start:end]).offsets
        fine += [
            ((start + a, start + b), count) for (a, b), count in _cut(text[start:end], [o[0] for o in offsets], limit)
        ]
    if whole:
        fine = _merged(fine, limit)
    return Portions(text, tuple(span for span, _ in fine))


def _cut(sentence: str, starts: Sequence[int], limit: int) -> list[tuple[Span, int]]:
    """Cut a sentence before a word, or before a piece if one word is all there is: spans and their tokens."""
    cuts, first = [(0, 0)], 0  # where each portion begins: character and piece
    while len(starts) - first > limit:
        last = first + limit
        at = next((i for i in range(last, first, -1) if sentence[starts[i] - 1 : starts[i]].isspace()), last)
        if starts[at] <= cuts[-1][0]:  # several pieces spell one character, which is not cut
            at = bisect_right(starts, cuts[-1][0])
        if at == len(starts):
            break
        cuts.append((starts[at], at))
        first = at
    found = []
    for (begin, first), (stop, last) in pairwise([*cuts, (len(sentence), len(starts))]):
        if words := sentence[begin:stop].strip():
            start = begin + sentence[begin:stop].index(words)
            found.append(((start, start + len(words)), last - first))
    return found


def _merged(fine: Sequence[tuple[Span, int]], limit: int) -> list[tuple[Span, int]]:
    merged: list[tuple[Span, int]] = []
    for (start, end), count in fine:
        if merged and merged[-1][1] + count <= limit:
            (before, _), held = merged[-1]
            merged[-1] = ((before, end), held + count)
        else:
            merged.append(((start, end), count))
    return merged
