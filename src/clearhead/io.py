"""Files in and out: text and JSON read, compressed or not; whole files written or none; progress; optional imports."""

import gzip
import hashlib
import importlib
import io
import json
import lzma
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from clearhead.errors import (
    BadCheckpoint,
    BadInput,
    ClearheadError,
    NotFound,
    UnsafeCheckpoint,
    filled,
    require,
    short,
    valid_text,
)

PACKAGE = Path(__file__).parent.resolve()  # what lies in it is ours
Kind = TypeVar("Kind")
Progress = Callable[[int], None]  # told how many more are done, of bytes, texts or examples

_BLOCK = 1 << 17
_LINE_LIMIT = 1_000_000  # a file without line breaks is read in pieces of this many characters
_LARGEST_TEXT = 1 << 29  # bytes of a text that a checkpoint holds: a vocabulary of millions
_DEEPEST = 64  # levels of lists and objects in a JSON file
_REPORT = 1_000_000  # bytes between two reports of progress


def read_text(path: str | Path, error: type[ClearheadError] = BadInput) -> str:
    """The text of a file; `error` is raised where it holds none, as it is by the functions that follow.

    What a checkpoint holds (a `BadCheckpoint` if it is wrong) may come from a stranger: see `check_file`.
    """
    if issubclass(error, BadCheckpoint):
        check_file(Path(path), _LARGEST_TEXT)
    with decompressed(Path(path), error) as (_, content):
        return content.read().decode("utf-8-sig")


def check_file(path: Path, most: int | None = None) -> None:
    """Refuse what stands in the place of a file: a folder, a pipe, a device, a link that leads elsewhere; or too much.

    A link may lead to the same folder, or from a snapshot of the hub's cache to its blobs.
    """
    try:
        status, target, home = path.stat(), path.resolve(), path.parent.resolve()
    except FileNotFoundError:
        return  # who reads it will say so
    except (OSError, RuntimeError, ValueError) as wrong:
        raise BadCheckpoint(f"{path} cannot be read ({short(str(wrong))}).") from None
    require(stat.S_ISREG(status.st_mode), f"{path} is no plain file; copy the file there.", BadCheckpoint)
    blobs = [place.parent / "blobs" for place in home.parents if place.name == "snapshots"]
    inside = any(target.is_relative_to(place.resolve()) for place in (home, *blobs)) or path.is_relative_to(PACKAGE)
    message = f"{path} is a link to {target}, outside of its folder; copy the file there instead."
    require(inside, message, UnsafeCheckpoint)
    size = f"{path} has {status.st_size:,} bytes, of which {most:,} at most are read" if most is not None else ""
    require(most is None or status.st_size <= most, f"{size}; copy the file again.", BadCheckpoint)


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file. Only \\n ends one: any other character, such as U+2028, may stand within it."""
    return [line.rstrip("\r") for line in read_text(path).removesuffix("\n").split("\n")]


def read_json(path: str | Path, error: type[ClearheadError] = BadInput) -> Any:
    """The content of a JSON file."""
    content = parse_json(read_text(path, error), str(path), error)
    if issubclass(error, BadCheckpoint):
        level, depth = [content], 0
        while level:
            depth += 1
            require(depth <= _DEEPEST, f"{path} is nested more than {_DEEPEST} levels deep; copy it again.", error)
            level = [inner for one in level for inner in _inside(one) if isinstance(inner, dict | list)]
    return content


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def read_object(path: Path, error: type[ClearheadError] = BadCheckpoint) -> dict[str, Any]:
    """The content of a JSON file that holds an object, such as config.json."""
    content = read_json(path, error)
    require(isinstance(content, dict), f"{path} holds a {type(content).__name__}, not a JSON object.", error)
    return dict(content)


def read_record(path: Path, kind: type[Kind], error: type[ClearheadError] = BadCheckpoint) -> Kind:
    """The content of a JSON file as a dataclass, whose fields are all that it may hold."""
    return filled(kind, read_json(path, error), str(path), error)


def parse_json(text: str, where: str, error: type[ClearheadError] = BadInput, *, unique: bool = False) -> Any:
    """The value of a JSON text that was read at `where`; with `unique`, no key may stand twice in an object."""
    try:
        return json.loads(text, object_pairs_hook=_once if unique else None)
    except (ValueError, RecursionError) as wrong:
        raise error(f"{where} is not JSON ({wrong}).") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers need not take the same of two values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def text_field(line: str, field: str, where: str) -> str:
    """The string under `field` in one line of JSON."""
    record = parse_json(line, where)
    text = record.get(field) if isinstance(record, dict) else None
    require(isinstance(text, str), f'{where} has no string under "{field}".', BadInput)
    return valid_text(str(text))


def read_texts(files: Iterable[str | Path], progress: Progress | None = None) -> Iterator[str]:
    """The texts of the files in the order given; `progress` is told of bytes as stored on the disk."""
    done = 0
    read = BytesRead(progress)
    for name in files:
        path = Path(name)
        with decompressed(path) as (raw, content):
            for text in _texts(path, content):
                yield text
                read.up_to(done + raw.tell())
            done += raw.tell()
    read.up_to(done, last=True)


def _texts(path: Path, content: BinaryIO) -> Iterator[str]:
    stream = io.TextIOWrapper(content, encoding="utf-8-sig")
    if content_suffix(path) == ".jsonl":
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield text_field(line, "text", f"{path}, line {number}")
    else:
        while line := stream.readline(_LINE_LIMIT):
            yield line
    stream.detach()


def content_suffix(path: Path) -> str:
    """The suffix that tells what is inside, without that of the compression: ".jsonl" for a.jsonl.xz."""
    return Path(path.stem).suffix if path.suffix in _DECOMPRESS else path.suffix


@contextmanager
def decompressed(path: Path, error: type[ClearheadError] = BadInput) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file: its bytes as stored (whose position tells progress) and its content, which may be decoded inside."""
    decompress = _DECOMPRESS.get(path.suffix)
    try:
        with path.open("rb") as raw:
            yield raw, raw if decompress is None else decompress(raw)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except UnicodeDecodeError as wrong:
        raise error(f"{path} is not UTF-8 text (byte {wrong.start}); convert it, or leave it out.") from None
    except IsADirectoryError:
        raise error(f"{path} is a folder; name the files in it.") from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as wrong:
        raise error(f"{path} cannot be read ({wrong}).") from None


def file_digest(path: Path) -> str:
    """SHA-256 of a file as it is stored."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except OSError as wrong:
        raise BadInput(f"{path} cannot be read ({wrong}).") from None


class _Zstandard(io.RawIOBase):
    """Frame after frame; a file that ends within one is an error, which the library's own reader does not notice."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw = raw
        self._library = optional("zstandard", f"reading {Path(raw.name).name}")
        self._frame: Any = None  # the one that is read, or was
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            between = self._frame is None or self._frame.eof
            packed = (self._frame.unused_data if self._frame and between else b"") or self._raw.read(_BLOCK)
            if not packed and not between:
                raise EOFError("it ends in the middle of a frame")
            if not packed:
                return 0
            if between:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                self._ready = memoryview(self._frame.decompress(packed))
            except self._library.ZstdError as wrong:
                raise OSError(str(wrong)) from None
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


_DECOMPRESS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw)),
    ".xz": lambda raw: cast(BinaryIO, lzma.LZMAFile(raw)),  # noqa: SIM115 – the caller closes raw
    ".zst": lambda raw: cast(BinaryIO, io.BufferedReader(_Zstandard(raw), _BLOCK)),
}


def optional(module: str, purpose: str, extra: str = "data") -> Any:
    """Import a package that only some uses need; `purpose` says which, as in "reading a.parquet"."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        message = f"{purpose} needs {package}, which is not installed: pip install 'clearhead[{extra}]'"
        raise NotFound(message[0].upper() + message[1:]) from None


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


def watched(texts: Iterable[str], progress: Progress | None) -> Iterator[str]:
    """The texts as they come, with the progress of `read_texts`."""
    done = 0
    read = BytesRead(progress)
    for text in texts:
        valid = valid_text(text)
        yield valid
        done += len(valid.encode())
        read.up_to(done)
    read.up_to(done, last=True)


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


def write_json(content: object, path: Path, **how: Any) -> None:
    """Write a JSON file for people and programs; `how` is json.dumps's."""
    path.write_text(json.dumps(content, **{"indent": 2, **how}) + "\n", encoding="utf-8")


def write_text(text: str, path: Path) -> None:
    """Write a file that a user named."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name a file in a folder that exists.") from None


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
        written = {path: folder / path.relative_to(stage) for path in sorted(stage.rglob("*")) if path.is_file()}
        for path, target in written.items():
            if target.exists() and not target.is_file():  # a folder, or a device such as /dev/null
                raise BadInput(f"{target} is no plain file; give another name to write to")
            sync(path)
        for path, target in written.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        sync(folder)
    except BaseException:
        shutil.rmtree(created[-1] if created else stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def staged_whole(target: Path, stage: Path) -> Iterator[Path]:
    """Give the empty folder `stage` to write into, which becomes `target` when all of it is on disk, or goes."""
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        yield stage
        for path in (*stage.rglob("*"), stage):
            sync(path)
        stage.rename(target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Record:
    """A dataclass that can be written as JSON: its fields by their names, unless a class says otherwise."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {spec.name: _plain(getattr(self, spec.name)) for spec in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value  # of an array
