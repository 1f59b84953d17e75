"""Where the writer divided a text: at blank lines, or at every line where lines are no wrapped prose."""

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]

_GAP = re.compile(r"\n[^\S\n]*\n")
_LINE = re.compile(r"\S.*")
_HEADING = re.compile(r"#{1,6}\s")  # as markdown writes them
_ENDED = tuple(".!?…:;,。！？｡؟۔।॥\"'”’»)")
_TITLE = 100  # characters that a heading has at most


def paragraphs(text: str, longest: int) -> list[Span]:
    """The paragraphs of a text, text[start:end], each with the headings before it; only white space is left out.

    Blank lines divide. What stands alone, or is longer than `longest`, is divided at its lines, unless they are one
    text that was wrapped: a list, a log, one sentence a line.
    """
    edges = [0, *(gap.end() for gap in _GAP.finditer(text)), len(text)]
    blocks = [span for start, end in pairwise(edges) if (span := _stripped(text, start, end))]
    units = [
        unit
        for start, end in blocks
        for unit in (_lines(text, start, end) if len(blocks) == 1 or end - start > longest else [(start, end)])
    ]
    return list(_with_headings(text, units))


def _lines(text: str, start: int, end: int) -> list[Span]:
    spans = [(found.start(), found.start() + len(found[0].rstrip())) for found in _LINE.finditer(text, start, end)]
    return [(start, end)] if is_wrapped([text[slice(*span)] for span in spans]) else spans


def is_wrapped(lines: list[str]) -> bool:
    """Whether lines are one text, broken where the next word had no room, so that many begin within a sentence."""
    breaks = list(pairwise(lines))
    # one line may be longer than all others: a link, say
    width = sorted(map(len, lines))[9 * len(lines) // 10]
    full = sum(len(line) + 1 + len(following.split(maxsplit=1)[0]) > width for line, following in breaks)
    within = sum(following[0].isalpha() and not following[0].isupper() for _, following in breaks)
    return 2 * full > len(breaks) and 4 * within > len(breaks)


def _with_headings(text: str, units: list[Span]) -> Iterator[Span]:
    """Headings go with what follows; a short line without a full stop is one, where more than another such follows."""
    first: int | None = None
    for (start, end), following in zip(units, [*units, None][1:], strict=True):
        first = start if first is None else first
        marked = _HEADING.match(text, start) is not None
        if following is not None and (marked or (_is_title(text, start, end) and not _is_title(text, *following))):
            continue
        yield first, end
        first = None


def _is_title(text: str, start: int, end: int) -> bool:
    return end - start <= _TITLE and "\n" not in text[start:end] and not text.endswith(_ENDED, start, end)


def _stripped(text: str, start: int, end: int) -> Span | None:
    words = text[start:end].strip()
    first = text.index(words, start)
    return (first, first + len(words)) if words else None
