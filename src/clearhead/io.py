"""Files in and out: packed streams, lines, texts and JSON read; whole files written or none; optional imports."""

import gzip
import importlib
import io
import json
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from clearhead.errors import BadInput, NotFound, require, valid_text

_BLOCK = 1 << 17


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file: its bytes as stored (whose position tells progress) and its content."""
    unpack = _UNPACK.get(path.suffix)
    try:
        with path.open("rb") as raw:
            yield raw, raw if unpack is None else unpack(raw)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text; convert it, or leave it out.") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; name the files in it.") from None
    except _damage() as error:
        raise BadInput(f"{path} cannot be read ({error}).") from None


def read_lines(path: Path) -> list[str]:
    """The lines of a file, unpacked. Only \\n ends one: any other character, such as U+2028, may stand within it."""
    with unpacked(path) as (_, content):
        text = content.read().decode("utf-8-sig")
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def kind(path: Path) -> str:
    """The ending that tells what is inside, without that of the packing: ".jsonl" for a.jsonl.xz."""
    return Path(path.stem).suffix if path.suffix in _UNPACK else path.suffix


def text_field(line: str, field: str, where: str) -> str:
    """The string under `field` in one line of JSON."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON ({error}).") from None
    text = record.get(field) if isinstance(record, dict) else None
    require(isinstance(text, str), f'{where} has no string under "{field}".', BadInput)
    return valid_text(str(text))


def optional(module: str, purpose: str, extra: str = "data") -> Any:
    """Import a package that only some uses need; `purpose` says which, as in "reading a.parquet"."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        message = f"{purpose} needs {package}, which is not installed: pip install 'clearhead[{extra}]'"
        raise NotFound(message[0].upper() + message[1:]) from None


class _Zstandard(io.RawIOBase):
    """Frame after frame; a file that ends within one is an error, which the library's own reader does not notice."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw = raw
        self._library = optional("zstandard", f"reading {Path(raw.name).name}").ZstdDecompressor()
        self._frame = self._library.decompressobj()
        self._in_frame = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            packed = self._frame.unused_data if self._frame.eof else b""
            packed = packed or self._raw.read(_BLOCK)
            if self._frame.eof:
                self._frame, self._in_frame = self._library.decompressobj(), False
            if not packed:
                if self._in_frame:
                    raise EOFError("it ends in the middle of a frame")
                return 0
            self._ready = memoryview(self._frame.decompress(packed))
            self._in_frame = True
        room = memoryview(buffer)
        count = min(len(room), len(self._ready))
        room[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


_UNPACK: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw)),
    ".xz": lambda raw: cast(BinaryIO, lzma.LZMAFile(raw)),  # noqa: SIM115 – the caller closes raw
    ".zst": lambda raw: cast(BinaryIO, io.BufferedReader(_Zstandard(raw), _BLOCK)),
}


def _damage() -> tuple[type[Exception], ...]:
    zstandard = sys.modules.get("zstandard")
    return (OSError, EOFError, lzma.LZMAError, zlib.error, *([zstandard.ZstdError] if zstandard else []))


def read_json(path: str | Path) -> Any:
    """The content of a JSON file; whatever is wrong with it becomes one sentence."""
    with unpacked(Path(path)) as (_, content):
        text = content.read().decode("utf-8-sig")
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error}).") from None


Progress = Callable[[int], None]  # told how many more are done, of bytes, texts or examples

_LINE_LIMIT = 1_000_000  # a file without line breaks is read in pieces of this many characters
_REPORT = 1_000_000  # bytes between two reports of progress


class BytesRead:
    """Tells progress how many more bytes were read, but not for every line."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._told = 0

    def up_to(self, total: int, *, last: bool = False) -> None:
        """Say how many bytes were read so far; the last time, everything is told on."""
        if self._progress is not None and (last or total >= self._told + _REPORT):
            self._progress(total - self._told)
            self._told = total


def in_wholes(progress: Progress | None, parts: int, wholes: int) -> Progress | None:
    """Progress that is told of parts, so many to so many wholes (such as 2 texts to 1 pair), and tells of wholes."""
    if progress is None:
        return None
    tell, done = progress, 0

    def advance(more: int) -> None:
        nonlocal done
        before, done = done, done + more
        tell(done * wholes // parts - before * wholes // parts)

    return advance


def read_texts(files: Iterable[str | Path], progress: Progress | None = None) -> Iterator[str]:
    """The texts of the files in the order given; `progress` is told of bytes as stored on the disk."""
    done = 0
    read = BytesRead(progress)
    for name in files:
        path = Path(name)
        with unpacked(path) as (raw, content):
            for text in _texts(path, content):
                yield text
                read.up_to(done + raw.tell())
            done += raw.tell()
    read.up_to(done, last=True)


def watched(texts: Iterable[str], progress: Progress | None) -> Iterator[str]:
    """The texts as they come, with the same progress."""
    done = 0
    read = BytesRead(progress)
    for text in texts:
        valid = valid_text(text)
        yield valid
        done += len(valid.encode())
        read.up_to(done)
    read.up_to(done, last=True)


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


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give an empty folder to write files into; at the end each is moved into `folder`, complete and on disk.

    If anything fails before that, `folder` is as it was. Files of other names in it stay.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; give a folder to save into")
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder))
    except OSError as error:
        raise BadInput(f"{folder} cannot be written to ({error.strerror}); choose another folder") from None
    try:
        yield stage
        written = sorted(path for path in stage.rglob("*") if path.is_file())
        for path in written:
            _check_replaceable(folder / path.relative_to(stage))
            sync(path)
        for path in written:
            target = folder / path.relative_to(stage)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        sync(folder)
    except BaseException:
        shutil.rmtree(created[-1] if created else stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def _check_replaceable(target: Path) -> None:
    """Refuse to put a file in the place of a folder, or of a device such as /dev/null."""
    if target.exists() and not target.is_file():
        raise BadInput(f"{target} is no plain file; give another name to write to")


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
