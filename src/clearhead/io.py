"""Files in and out: text and JSON read, compressed or not; whole files written or none; progress; optional imports."""

import errno
import gzip
import hashlib
import html
import importlib
import io
import json
import lzma
import math
import os
import re
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
from threading import get_ident
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
_ROWS, _CELL = 30, 300  # rows of a table in a notebook, and characters of a cell, at most
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


def parse_json(text: str | bytes, where: str, error: type[ClearheadError] = BadInput, *, unique: bool = False) -> Any:
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
    """Write a JSON file for people and programs into a stage; `how` is json.dumps's."""
    with naming(path):
        path.write_text(json.dumps(content, **{"indent": 2, **how}) + "\n", encoding="utf-8")


def as_json_line(record: object) -> str:
    """One line of JSON; a number that is not finite is null, since JSON has no word for it."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(record), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(text: str, path: Path, *, overwrite: bool = False) -> None:
    """Write a file that a user named, whole or not at all."""
    with staged_file(path, overwrite=overwrite) as stage:
        stage.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let what the system has against writing say which file it is about; it does not know once a file is open."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


# ---- whole files and folders, or none -----------------------------------------------------------------------------

_SAVING, _REPLACED = ".saving-", ".replaced-"  # what is not yet there, and what is there no longer
# the file that makes a folder what it is goes there last, so that half of a model is never taken for one
_DECIDING = ("manifest.json", "index.json", "skill.json", "tokenizer_config.json", "vocabulary.json", "config.json")
# with one of these or of those, a folder is somebody's model, tokenizer, index, run or bulk run
_TELLING = ("*.safetensors", "tokenizer.json", "vocab.txt", "vocab.json", "_manifest.json")
_BESIDE = (  # what else belongs to such a one, and goes with it
    *("*.safetensors.index.json", "generation_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("merges.txt", "*.spm", "spiece.model", "modules.json", "config_sentence_transformers.json"),
    *(
        "sentence_bert_config.json",
        "1_Pooling",
        "2_Normalize",
        "documents.jsonl",
        "words.json",
        "index.usearch",
        "skills",
    ),
)
_RUN = ("README.md", "run", "corpus", "generator")  # which stay where a run goes on
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}  # of a file system that has none

# seconds until a file server lets go of what a machine held that was lost: NFS leases last 90
_TAKE_OVER, _LOOK = 150.0, 0.2

_held: dict[Path, int] = {}  # what this process writes to, and the thread that does


@contextmanager
def staged(folder: Path, *, own: bool = False, overwrite: bool = False) -> Iterator[Path]:
    """Give an empty folder to write files into, which at the end is `folder`, complete and on disk; or it goes.

    What is there already is refused, or with `overwrite` replaced in one step. The caller's `own` folder, such as that
    of a run, is added to, and so is one that holds nothing of the kind: there files of other names stay.
    """
    place = Path(os.path.realpath(folder))
    with claimed(folder):
        with _one_sentence(folder):
            check_free_folder(folder, own=own, overwrite=overwrite)
            held = [one.name for one in place.iterdir()] if place.exists() else []
        strange = [name for name in held if not any(fnmatch(name, one) for one in (*_OURS, *_RUN))]
        whole = _can_move(place) and not (held and own) and not strange
        stage = _beside(place, _SAVING, f".{token_hex(4)}") if whole else place / f"{_SAVING}{token_hex(4)}"
        try:
            with _one_sentence(folder, stage):
                stage.mkdir()
                yield stage
                _settle(stage)
                if not whole:
                    _move_into(stage, place, own=own, overwrite=overwrite)
                elif held:
                    _exchange(stage, place)
                else:
                    stage.rename(place)
                sync(place.parent if whole else place)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def staged_file(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give the name of a file to write, which at the end is `path`, complete and on disk; or it goes."""
    place = Path(os.path.realpath(path))
    stage = _beside(place, _SAVING, f".{token_hex(4)}")
    with claimed(path), _one_sentence(path, stage):
        check_free_file(path, overwrite=overwrite)
        try:
            yield stage
            sync(stage)
            stage.replace(place)
            sync(place.parent)
        except BaseException:
            with suppress(OSError):
                stage.unlink()
            raise


@contextmanager
def staged_whole(target: Path, stage: Path) -> Iterator[Path]:
    """Give the empty folder `stage` to write into, which becomes `target` when all of it is on disk, or goes."""
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        yield stage
        _settle(stage)
        stage.rename(target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def check_free_folder(folder: Path, *, own: bool = False, run: bool = False, overwrite: bool = False) -> None:
    """Refuse to write to a folder that holds what nobody said should go; `run` may find one that has just begun."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; give a folder to save into")
    if not (own or overwrite):
        names = (*reversed(_DECIDING), *_TELLING, "pytorch_model*", *(() if run else ("run/metrics.jsonl",)))
        for found in (found for name in names for found in folder.glob(name)):
            raise BadInput(f"{found} is there already; {_WAY_OUT}")


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training run, which knows whether it may go on there."""
    return (folder / "run").is_dir()


def check_free_file(path: Path, *, overwrite: bool = False) -> None:
    """Refuse to write to a file that is there, and to what is none."""
    if path.exists() and not path.is_file():  # a folder, or a device such as /dev/null
        raise BadInput(f"{path} is no plain file; give another name to write to")
    require(overwrite or not path.exists(), f"{path} is there already; {_WAY_OUT}", BadInput)


_OURS = (*_DECIDING, *_TELLING, *_BESIDE)
_WAY_OUT = "choose another name, or replace it with --overwrite (in Python overwrite=True)"


@contextmanager
def claimed(target: Path, *, run: bool = False) -> Iterator[None]:
    """Keep all others from writing to a file or folder, which need not be there yet; a second claim is refused.

    The lock is the system's, so that it ends with the process, whatever ends that. Left-overs of killed processes go.
    A `run` that torchrun started may take the place of one that was killed a moment ago, and waits until that is gone.
    """
    patience = _TAKE_OVER if run and "TORCHELASTIC_RUN_ID" in os.environ else 0.0
    place, thread = Path(os.path.realpath(target)), get_ident()
    with ExitStack() as claim:
        with _one_sentence(target):
            claim.enter_context(_folder(place.parent))
            if not any(_held.get(one) == thread for one in (place, *place.parents)):
                claim.enter_context(_locked(place, target, time.monotonic() + patience))
                _held[place] = thread
                claim.callback(_held.pop, place)
            _sweep(place)
        yield


@contextmanager
def _one_sentence(target: Path, stage: Path | None = None) -> Iterator[None]:
    """Say what the system has against writing: to which file, why, and what to do. Other errors pass."""
    try:
        yield
    except BrokenPipeError:  # of standard output
        raise
    except OSError as error:
        shown, said = target, error.filename
        if stage is not None and isinstance(said, str):
            if not Path(said).is_relative_to(stage.parent):  # something that was read meanwhile
                raise
            shown = target / Path(said).relative_to(stage) if Path(said).is_relative_to(stage) else target
        hint = "make room, or choose another disk" if error.errno in _FULL else "choose another place"
        raise BadInput(f"{shown} cannot be written to ({error.strerror or error}); {hint}") from None


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder and those above it; where nothing came into them they go again."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # they hold something
            for one in missing:
                one.rmdir()


@contextmanager
def _locked(place: Path, target: Path, patient_until: float) -> Iterator[None]:
    """Hold the lock file of a place, beside it or, where nothing may be written there, in it."""
    lock = _beside(place, ".", ".lock")
    if not os.access(lock.parent, os.W_OK) and place.is_dir():
        lock = place / ".lock"
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            while not (ours := _lock(file)) and time.monotonic() < patient_until:
                time.sleep(_LOOK)
            if not ours:
                owner = os.read(file, 20).decode("ascii", "replace")
                todo = "wait until it ends, or choose another name"
                raise BadInput(f"{target} is being written to by another process{owner and f', {owner}'}; {todo}")
            with suppress(FileNotFoundError):  # who held it before has removed it
                if os.path.samestat(os.fstat(file), lock.stat()):
                    break
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # of one that has just let go
    try:
        with suppress(OSError):  # the number is for people
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        yield
    finally:
        try:
            with suppress(OSError):  # an old file is no lock
                lock.unlink()
        finally:
            os.close(file)


def being_replaced(folder: Path) -> bool:
    """Whether what a folder holds is just being written, in more than one step where the system has no single one."""
    place = Path(os.path.realpath(folder))
    if not any(lock.exists() for lock in (_beside(place, ".", ".lock"), place / ".lock")):
        return False
    try:
        return _beside(place, _REPLACED).exists() or any(one.name.startswith(_SAVING) for one in place.iterdir())
    except FileNotFoundError:
        return False  # it is the first that is written there, or another has just taken its place


def _lock(file: int) -> bool:
    """Lock an open file, unless another process or thread has; where the file system knows no locks, all may."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 1 << 30, os.SEEK_SET)  # what is locked there cannot be read
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            os.lseek(file, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _NO_LOCKS
    return True


def _beside(place: Path, before: str, after: str = "") -> Path:
    """A hidden name beside a place; of one that is almost too long itself, its digest."""
    name = place.name if len(os.fsencode(place.name)) < 200 else hashlib.sha256(os.fsencode(place.name)).hexdigest()
    return place.with_name(f"{before}{name}{after}")


def _sweep(place: Path) -> None:
    """Remove what killed processes left of a place that is claimed, and bring back what one had just put aside."""
    if (aside := _beside(place, _REPLACED)).exists() and not place.exists():
        aside.rename(place)
    start, left = _beside(place, _SAVING, ".").name, [aside]
    with suppress(OSError):  # a folder that may be written to but not listed
        # of eight digits, as `staged` makes them
        left += [one for one in place.parent.iterdir() if re.fullmatch(f"{re.escape(start)}[0-9a-f]{{8}}", one.name)]
    # in it, and where a run writes, which may not write there again; with a dot they are of files that others write
    within = ("", "corpus/", "generator/", "run/", "run/*/")
    left += [one for inner in within for one in place.glob(f"{inner}{_SAVING}*") if "." not in one.name[1:]]
    for one in left:
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink(missing_ok=True)


def _can_move(place: Path) -> bool:
    """Whether another folder can take a place: not that of a mounted disk, nor where this process stands."""
    if not place.exists():
        return True
    inside = Path(os.path.realpath(os.curdir)).is_relative_to(place)
    return not inside and not place.is_mount() and os.access(place.parent, os.W_OK)


def _settle(stage: Path) -> None:
    """Give files the mode that the user's mask leaves them, whoever wrote them, and wait until all are on disk."""
    mode = stage.stat().st_mode & 0o666
    for path in (*stage.rglob("*"), stage):
        with naming(path):
            if path.is_file() and path.stat().st_mode & 0o777 != mode:
                path.chmod(mode)
            sync(path)


def _exchange(stage: Path, place: Path) -> None:
    """Let two folders change places, in one step where the system has it: on the disks of Linux and macOS."""
    import ctypes

    names = [os.fsencode(one) for one in (stage, place)]
    system: Any = ctypes.CDLL(None) if os.name == "posix" else None
    if hasattr(system, "renameat2") and not system.renameat2(-100, names[0], -100, names[1], 2):
        return
    if hasattr(system, "renamex_np") and not system.renamex_np(*names, 2):
        return
    aside = _beside(place, _REPLACED)
    place.rename(aside)
    try:
        stage.rename(place)
    except OSError:
        aside.rename(place)
        raise
    aside.rename(stage)


def _move_into(stage: Path, place: Path, *, own: bool, overwrite: bool) -> None:
    """Move files into a folder that stays; at no moment are those of two models taken for one.

    So where others change with it, the file that makes it one is removed first. It comes last in any case.
    """
    names = [path.relative_to(stage) for path in stage.rglob("*") if path.is_file()]
    names.sort(key=lambda name: (_DECIDING.index(str(name)) if str(name) in _DECIDING else -1, name))
    for name in names:
        check_free_file(place / name, overwrite=own or overwrite)
    known = _OURS if not own else (*_OURS, "README.md")
    stale = [
        one
        for one in place.iterdir()
        if overwrite and one != stage and not (stage / one.name).exists() and any(fnmatch(one.name, it) for it in known)
    ]
    fresh = [place / name for name in names if not (place / name).exists()]
    last = place / names[-1] if names else place
    others = bool(stale) or len(fresh) < len(names) - 1
    if others and last.is_file() and last.read_bytes() != (stage / names[-1]).read_bytes():
        last.unlink()
    for one in stale:
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    try:
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).replace(place / name)
    except BaseException:
        for path in fresh:
            with suppress(OSError):
                path.unlink()
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

    def _repr_html_(self) -> str:
        """As a notebook shows it: what it says in a line, and below a table of what it lists."""
        found = self.to_dict()
        lists = {name: value for name, value in found.items() if isinstance(value, list | dict)}
        said = ", ".join(f"{name}: {_shown(value)}" for name, value in found.items() if name not in lists)
        tables = [_of_list(f"{said}; {name}" if said else name, value) for name, value in lists.items()]
        return "".join(tables) or html_table(said, (), ())


def _of_list(caption: str, value: Any) -> str:
    rows: list[Any] = list(value.items()) if isinstance(value, dict) else value
    columns = tuple(rows[0]) if rows and all(isinstance(row, dict) for row in rows) else ()
    cells = [row.values() if columns else row if isinstance(row, tuple) else (row,) for row in rows[:_ROWS]]
    return html_table(caption, columns, cells, len(rows) - len(cells))


def html_table(caption: str, columns: Iterable[str], rows: Iterable[Iterable[Any]], left_out: int = 0) -> str:
    """A table for a notebook; what is in it is text, whatever it looks like."""

    def cells(kind: str, values: Iterable[Any]) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(_shown(value))}</{kind}>" for value in values) + "</tr>"

    head = cells("th", columns) if columns else ""
    body = "".join(cells("td", row) for row in rows)
    rest = f"<p>… {left_out:,} more</p>" if left_out else ""
    return f"<table><caption>{html.escape(caption)}</caption>{head}{body}</table>{rest}"


def _shown(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value  # of an array
