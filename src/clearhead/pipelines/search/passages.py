"""Documents into passages: paragraphs, or whole sentences of them up to a length; every word in exactly one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clearhead.data.sentences import sentence_spans
from clearhead.errors import BadInput, require
from clearhead.pipelines.search.paragraphs import Span, paragraphs

LONGEST = 800  # characters; about 200 tokens of English, of which the usual sentence encoder reads 256

_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and where it comes from: a file, or a file and a line."""

    text: str
    source: str


def cut_passages(text: str, longest: int = LONGEST) -> list[Span]:
    """Passages of at most `longest` characters, text[start:end], without white space round them.

    A passage is a paragraph (see `paragraphs`); of one that is too long, as many sentences as fit. A sentence that is
    too long itself is cut between words.
    """
    require(longest > 0, f"passages of at most {longest} characters hold nothing; choose 1 or more", BadInput)
    passages: list[Span] = []
    for first, last in paragraphs(text, longest):
        begun = len(passages)
        for start, end in _pieces(text, first, last, longest):
            if len(passages) > begun and end - passages[-1][0] <= longest:
                passages[-1] = (passages[-1][0], end)
            else:
                passages.append((start, end))
    return passages


def _pieces(text: str, first: int, last: int, longest: int) -> Iterator[Span]:
    """Sentences of text[first:last], and parts of those that are longer than a passage."""
    for begin, stop in sentence_spans(text[first:last]):
        start, end = first + begin, first + stop
        while end - start > longest:
            cut = _last_space(text, start, start + longest)
            yield start, start + len(text[start:cut].rstrip())
            start = cut + len(text[cut:end]) - len(text[cut:end].lstrip())
        yield start, end


def _last_space(text: str, start: int, end: int) -> int:
    """The last place between `start` and `end` where a word ends, or `end` in the middle of one."""
    return next((i for i in range(end, start, -1) if _SPACE.match(text, i)), end)
