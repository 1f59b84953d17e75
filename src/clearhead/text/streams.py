"""Files as streams of bytes, unpacked on the way (.gz, .xz, .zst); whatever is wrong with one becomes one sentence."""

import gzip
import importlib
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from clearhead.errors import BadInput, NotFound, require
from clearhead.text.valid import valid_text

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
