"""Documents out of files, and documents cut into passages."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from clearhead.errors import BadInput, NotFound, require
from clearhead.io import kind, text_field, unpacked
from clearhead.text.sentences import sentence_spans

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


_IN_FOLDERS = (".txt", ".md", ".jsonl")


def read_documents(names: Iterable[str | Path]) -> Iterator[Document]:
    """The documents of files and folders, in order; a folder's .txt, .md and .jsonl files by name, its folders too.

    A line of .jsonl is an object with "text"; its source is its "id" if it has one, else the file and the line.
    """
    for name in names:
        path = Path(name)
        files = _files(path) if path.is_dir() else [path]
        for file in files:
            with unpacked(file) as (_, content):
                yield from _documents_by_line(file, content) if kind(file) == ".jsonl" else [_whole(file, content)]


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and kind(path) in _IN_FOLDERS)
    require(bool(found), f"{folder} holds no {', '.join(_IN_FOLDERS)} file; name the files themselves", NotFound)
    return found


def _whole(file: Path, content: BinaryIO) -> Document:
    # bytes, not lines: offsets count the characters that are in the file, "\r\n" as two
    return Document(content.read().decode("utf-8-sig"), str(file))


def _documents_by_line(file: Path, content: BinaryIO) -> Iterator[Document]:
    stream = io.TextIOWrapper(content, encoding="utf-8-sig")
    for number, line in enumerate(stream, start=1):
        if line.strip():
            where = f"{file}, line {number}"
            yield Document(text_field(line, "text", where), _identity(line, where) or f"{file}:{number}")
    stream.detach()


def _identity(line: str, where: str) -> str | None:
    name = json.loads(line).get("id")
    require(name is None or isinstance(name, str | int), f'{where} has an "id" that is no string or number.', BadInput)
    return None if name is None else str(name)
