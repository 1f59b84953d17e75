"""Documents into passages: whole sentences up to a length, paragraphs kept apart, every word in exactly one passage."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clearhead.data.sentences import sentence_spans
from clearhead.errors import BadInput, require

Span = tuple[int, int]

LONGEST = 800  # characters; about 200 tokens of English, of which the usual sentence encoder reads 256

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and where it comes from: a file, or a file and a line."""

    text: str
    source: str


def cut_passages(text: str, longest: int = LONGEST) -> list[Span]:
    """Passages of at most `longest` characters, text[start:end], without white space round them.

    Sentences are gathered until the next does not fit or begins a paragraph; a paragraph below an eighth of `longest`
    (a heading, say) goes with what follows. A sentence that is too long itself is cut between words.
    """
    require(longest > 0, f"passages of at most {longest} characters hold nothing; choose 1 or more", BadInput)
    passages: list[Span] = []
    for start, end in _pieces(text, longest):
        if passages:
            first, last = passages[-1]
            apart = 8 * (last - first) >= longest and _PARAGRAPH.search(text, last, start)
            if end - first <= longest and not apart:
                passages[-1] = (first, end)
                continue
        passages.append((start, end))
    return passages


def _pieces(text: str, longest: int) -> Iterator[Span]:
    """Sentences, and parts of those that are longer than a passage."""
    for start, end in sentence_spans(text):
        while end - start > longest:
            cut = _last_space(text, start, start + longest)
            yield start, start + len(text[start:cut].rstrip())
            start = cut + len(text[cut:end]) - len(text[cut:end].lstrip())
        yield start, end


def _last_space(text: str, start: int, end: int) -> int:
    """The last place between `start` and `end` where a word ends, or `end` in the middle of one."""
    return next((i for i in range(end, start, -1) if _SPACE.match(text, i)), end)
