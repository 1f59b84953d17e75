"""Documents out of files and folders: .txt and .md whole, .jsonl one a line; packed (.gz, .xz, .zst) or not."""

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from clearhead.errors import BadInput, NotFound, require
from clearhead.pipelines.search.passages import Document
from clearhead.text.streams import kind, text_field, unpacked

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
                yield from _lines(file, content) if kind(file) == ".jsonl" else [_whole(file, content)]


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and kind(path) in _IN_FOLDERS)
    require(bool(found), f"{folder} holds no {', '.join(_IN_FOLDERS)} file; name the files themselves", NotFound)
    return found


def _whole(file: Path, content: BinaryIO) -> Document:
    # bytes, not lines: offsets count the characters that are in the file, "\r\n" as two
    return Document(content.read().decode("utf-8-sig"), str(file))


def _lines(file: Path, content: BinaryIO) -> Iterator[Document]:
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
