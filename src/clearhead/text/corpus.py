"""Plain text out of files: .txt and anything else as lines, .jsonl by its "text" field, either in .gz or .xz too."""

import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from clearhead.errors import BadInput, NotFound, require
from clearhead.text.valid import valid_text

Progress = Callable[[int], None]

_LINE_LIMIT = 1_000_000  # a file without line breaks is read in pieces of this many characters
_REPORT = 1_000_000  # bytes between two reports of progress
_UNPACK: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw)),
    ".xz": lambda raw: cast(BinaryIO, lzma.LZMAFile(raw)),  # noqa: SIM115 – the caller closes raw
}


class _Report:
    """Passes on how many bytes were read, but not for every line."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._next = _REPORT

    def __call__(self, done: int) -> None:
        if done >= self._next:
            self.last(done)
            self._next = done + _REPORT

    def last(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done)


def read_texts(files: Iterable[str | Path], progress: Progress | None = None) -> Iterator[str]:
    """The texts of the files in the order given; `progress` gets the bytes read so far, as stored on the disk."""
    done = 0
    report = _Report(progress)
    for name in files:
        path = Path(name)
        try:
            with path.open("rb") as raw:
                for text in _texts(path, raw):
                    yield text
                    report(done + raw.tell())
                done += raw.tell()
        except FileNotFoundError:
            raise NotFound(f"There is no file {path}; check the name.") from None
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8 text; convert it, or leave it out.") from None
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise BadInput(f"{path} cannot be read ({error}).") from None
    report.last(done)


def watched(texts: Iterable[str], progress: Progress | None) -> Iterator[str]:
    """The texts as they come, with the same reports of progress."""
    done = 0
    report = _Report(progress)
    for text in texts:
        valid = valid_text(text)
        yield valid
        done += len(valid.encode())
        report(done)
    report.last(done)


def _texts(path: Path, raw: BinaryIO) -> Iterator[str]:
    unpack = _UNPACK.get(path.suffix)
    stream = io.TextIOWrapper(unpack(raw) if unpack else raw, encoding="utf-8-sig")
    kind = Path(path.stem).suffix if unpack else path.suffix
    if kind == ".jsonl":
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield _text_field(line, f"{path}, line {number}")
    else:
        while line := stream.readline(_LINE_LIMIT):
            yield line
    stream.detach()


def _text_field(line: str, where: str) -> str:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON ({error}).") from None
    text = record.get("text") if isinstance(record, dict) else None
    require(isinstance(text, str), f'{where} has no string under "text".', BadInput)
    return valid_text(str(text))
