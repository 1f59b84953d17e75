"""Plain text out of files: .txt and anything else as lines, .jsonl by its "text" field, packed or not."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from clearhead.text.streams import kind, text_field, unpacked
from clearhead.text.valid import valid_text

Progress = Callable[[int], None]

_LINE_LIMIT = 1_000_000  # a file without line breaks is read in pieces of this many characters
_REPORT = 1_000_000  # bytes between two reports of progress


class Report:
    """Passes on how many bytes were read, but not for every line."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._next = _REPORT

    def __call__(self, done: int) -> None:
        """Say how many bytes were read so far."""
        if done >= self._next:
            self.last(done)
            self._next = done + _REPORT

    def last(self, done: int) -> None:
        """Say how many bytes there were."""
        if self._progress is not None:
            self._progress(done)


def read_texts(files: Iterable[str | Path], progress: Progress | None = None) -> Iterator[str]:
    """The texts of the files in the order given; `progress` gets the bytes read so far, as stored on the disk."""
    done = 0
    report = Report(progress)
    for name in files:
        path = Path(name)
        with unpacked(path) as (raw, content):
            for text in _texts(path, content):
                yield text
                report(done + raw.tell())
            done += raw.tell()
    report.last(done)


def watched(texts: Iterable[str], progress: Progress | None) -> Iterator[str]:
    """The texts as they come, with the same reports of progress."""
    done = 0
    report = Report(progress)
    for text in texts:
        valid = valid_text(text)
        yield valid
        done += len(valid.encode())
        report(done)
    report.last(done)


def _texts(path: Path, content: BinaryIO) -> Iterator[str]:
    stream = io.TextIOWrapper(content, encoding="utf-8-sig")
    if kind(path) == ".jsonl":
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield text_field(line, "text", f"{path}, line {number}")
    else:
        while line := stream.readline(_LINE_LIMIT):
            yield line
    stream.detach()
