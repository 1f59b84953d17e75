"""Documents cut into passages."""

import re
from collections.abc import Iterator
from itertools import pairwise

from clearhead.errors import BadInput, require
from clearhead.text.sentences import sentence_spans

LONGEST = 800  # characters; about 200 tokens of English, of which the usual sentence encoder reads 256

Span = tuple[int, int]

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LINE = re.compile(r"\S.*")
_HEADING = re.compile(r"#{1,6}\s")  # as markdown writes them
_SENTENCE_ENDS = tuple(".!?…:;,。！？｡؟۔।॥\"'”’»)")
_TITLE = 100  # characters that a heading has at most


def cut_passages(text: str, longest: int = LONGEST) -> list[Span]:
    """Passages of at most `longest` characters, text[start:end], without white space round them.

    A passage is a paragraph with the headings before it; of one that is too long, as many sentences as fit. A sentence
    that is too long itself is cut between words.
    """
    require(longest > 0, f"passages of at most {longest} characters hold nothing; choose 1 or more", BadInput)
    passages: list[Span] = []
    for paragraph in _paragraphs(text, longest):
        first = len(passages)
        for start, end in _sentences(text, paragraph, longest):
            if len(passages) > first and end - passages[-1][0] <= longest:
                passages[-1] = (passages[-1][0], end)
            else:
                passages.append((start, end))
    return passages


def _sentences(text: str, paragraph: Span, longest: int) -> Iterator[Span]:
    """Sentences of a paragraph, and parts of those that are longer than a passage."""
    first, last = paragraph
    for begin, stop in sentence_spans(text[first:last]):
        start, end = first + begin, first + stop
        while end - start > longest:
            most = start + longest
            # the last place where a word ends, or the middle of one
            cut = next((i for i in range(most, start, -1) if text[i].isspace()), most)
            yield start, start + len(text[start:cut].rstrip())
            start = end - len(text[cut:end].lstrip())
        yield start, end


def _paragraphs(text: str, longest: int) -> Iterator[Span]:
    """Blank lines divide; only white space is left out.

    What stands alone, or is longer than `longest`, is divided at its lines (a list, a log, one sentence a line),
    unless they are one text that was wrapped. Headings go with what follows; a short line without a full stop is one,
    where more than another such follows.
    """
    edges = [0, *(gap.end() for gap in _BLANK_LINE.finditer(text)), len(text)]
    blocks = [
        (end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())) for start, end in pairwise(edges)
    ]
    blocks = [(start, end) for start, end in blocks if start < end]
    units: list[Span] = []
    for start, end in blocks:
        units += _lines(text, start, end) if len(blocks) == 1 or end - start > longest else [(start, end)]
    first: int | None = None
    for (start, end), following in zip(units, [*units, None][1:], strict=True):
        first = start if first is None else first
        marked = _HEADING.match(text, start) is not None
        if following is not None and (marked or (_is_title(text, start, end) and not _is_title(text, *following))):
            continue
        yield first, end
        first = None


def _lines(text: str, start: int, end: int) -> list[Span]:
    """The lines of a block; all of it, if it was wrapped."""
    spans = [(found.start(), found.start() + len(found[0].rstrip())) for found in _LINE.finditer(text, start, end)]
    return [(start, end)] if _is_wrapped([text[slice(*span)] for span in spans]) else spans


def _is_wrapped(lines: list[str]) -> bool:
    """Whether lines are one text, broken where the next word had no room, so that many begin within a sentence."""
    breaks = list(pairwise(lines))
    # one line may be longer than all others: a link, say
    width = sorted(map(len, lines))[9 * len(lines) // 10]
    full = sum(len(line) + 1 + len(following.split(maxsplit=1)[0]) > width for line, following in breaks)
    within = sum(following[0].isalpha() and not following[0].isupper() for _, following in breaks)
    return 2 * full > len(breaks) and 4 * within > len(breaks)


def _is_title(text: str, start: int, end: int) -> bool:
    return end - start <= _TITLE and "\n" not in text[start:end] and not text.endswith(_SENTENCE_ENDS, start, end)
