"""Data sets larger than the memory: examples that are read a block at a time, and token ids that lie on disk."""

# N tokens of all sequences · S sequences · E items

import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clearhead.data.dataset import TokenizedDataset
from clearhead.data.report import label_of
from clearhead.data.tables import Source, Table, open_blocks
from clearhead.errors import BadInput, require
from clearhead.io import Progress, read_object, staged_whole, write_json

ROWS = 10_000  # of a block
_MANIFEST = "manifest.json"
Encode = Callable[[Sequence[Any]], TokenizedDataset]


class StreamedExamples:
    """The examples of a file, which is read anew each time that they are gone through."""

    def __init__(self, source: Source, read: Callable[[Table], list[Any]], *, rows: int = ROWS) -> None:
        self.source = source
        self._read, self._rows = read, rows
        self._count: int | None = None

    def blocks(self, progress: Progress | None = None) -> Iterator[list[Any]]:
        """The examples in lists; `progress` is told how many more bytes of the file were read."""
        labelled: bool | None = None
        for table in open_blocks(self.source, self._rows, progress):
            if block := self._read(table):
                known = label_of(block[0]) is not None
                require(labelled in (None, known), _mixed(self.source), BadInput)
                labelled = known
                yield block

    def __iter__(self) -> Iterator[Any]:
        count = 0
        for block in self.blocks():
            yield from block
            count += len(block)
        self._count = count

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(len(block) for block in self.blocks())
        return self._count


def find_tokenised(folder: Path, made_of: Mapping[str, Any]) -> TokenizedDataset | None:
    """Open what was tokenised into a folder, if it was made of the same; its arrays are read as they are needed."""
    if not (folder / _MANIFEST).is_file():
        return None
    manifest = read_object(folder / _MANIFEST, BadInput)
    return _read(folder, manifest) if manifest.get("made_of") == dict(made_of) else None


def _read(folder: Path, manifest: Mapping[str, Any]) -> TokenizedDataset:
    arrays = {name: _open(folder, name, **described) for name, described in manifest["arrays"].items()}

    def below(kind: str) -> dict[str, NDArray[Any]]:
        return {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{kind}.")}

    return TokenizedDataset(
        arrays["ids"],
        arrays["offsets"],
        arrays["segments"] if manifest["has_segments"] else None,
        arrays["members"],
        targets=below("targets"),
        token_targets=below("token_targets"),
        by_column=manifest["by_column"],
    )


def tokenise_to_disk(
    examples: StreamedExamples,
    encode: Encode,
    folder: Path,
    made_of: Mapping[str, Any],
    progress: Progress | None = None,
) -> TokenizedDataset:
    """Tokenise a block at a time into `folder`; the data set equals the one that is made in memory."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with staged_whole(folder, folder.with_name(f".{folder.name}")) as stage, ExitStack() as files, _said_once():
        writer = _Writer(stage, files)
        for block in examples.blocks(progress):
            writer.add(encode(block), examples.source)
        write_json(writer.manifest(made_of), stage / _MANIFEST)
        shutil.rmtree(folder, ignore_errors=True)  # of other data
    return _read(folder, read_object(folder / _MANIFEST, BadInput))


class _Writer:
    """Lays the arrays of one block behind those of the blocks before."""

    def __init__(self, stage: Path, files: ExitStack) -> None:
        self._stage, self._files = stage, files
        self._open: dict[str, BinaryIO] = {}
        self._arrays: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._tokens = self._sequences = 0
        self._has_segments = self._by_column = False

    def add(self, block: TokenizedDataset, source: object) -> None:
        first = not self._arrays
        segments = np.zeros(block.tokens, np.int8) if block.segments is None else block.segments
        arrays: dict[str, NDArray[Any]] = {
            "ids": block.ids,
            "offsets": block.offsets[0 if first else 1 :] + self._tokens,
            "segments": segments,
            "members": np.where(block.members < 0, block.members, block.members + self._sequences),
            **{f"targets.{name}": values for name, values in block.targets.items()},
            **{f"token_targets.{name}": values for name, values in block.token_targets.items()},
        }
        kinds = {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}
        same = first or kinds == {name: (kind, shape[1:]) for name, (kind, shape) in self._arrays.items()}
        require(same, _mixed(source), BadInput)
        for name, array in arrays.items():
            if name not in self._open:
                self._open[name] = self._files.enter_context((self._stage / name).open("wb"))
            self._open[name].write(np.ascontiguousarray(array).data)
            before = self._arrays[name][1][0] if name in self._arrays else 0
            self._arrays[name] = array.dtype, (before + len(array), *array.shape[1:])
        self._tokens += block.tokens
        self._sequences += len(block.offsets) - 1
        self._has_segments |= block.segments is not None
        self._by_column = block.by_column

    def manifest(self, made_of: Mapping[str, Any]) -> dict[str, Any]:
        for file in self._open.values():
            file.flush()
        arrays = {name: {"dtype": kind.str, "shape": list(shape)} for name, (kind, shape) in self._arrays.items()}
        return {
            "made_of": dict(made_of),
            "arrays": arrays,
            "has_segments": self._has_segments,
            "by_column": self._by_column,
        }


def _mixed(source: object) -> str:
    told = f"the rows of {source} are not all of one kind: some have a label or a text that others lack"
    return f"{told}; give every row the same columns"


def _open(folder: Path, name: str, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    path, kind = folder / name, np.dtype(dtype)
    size = path.stat().st_size if path.is_file() else -1
    whole = size == math.prod(shape) * kind.itemsize
    require(whole, f"{path} is damaged or missing; remove {folder}, and it is tokenised again", BadInput)
    return np.memmap(path, kind, "r", shape=tuple(shape)).view(np.ndarray)


@contextmanager
def _said_once() -> Iterator[None]:
    """Say of the first block alone what would be said of each, such as that texts are cut."""
    seen: set[str] = set()

    def first(record: logging.LogRecord) -> bool:
        again = record.msg in seen
        seen.add(str(record.msg))
        return not again

    loggers = [logging.getLogger(f"clearhead.data.{name}") for name in ("dataset", "encode", "formats", "tables")]
    for one in loggers:
        one.addFilter(first)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(first)
