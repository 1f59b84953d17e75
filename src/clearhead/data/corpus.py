"""Documents out of files and hub data sets, one after the other, never all in memory.

.txt: documents stand between blank lines; if the first million characters have none, each line is a document.
.jsonl and .parquet: one document per line or row, under "text" unless said otherwise. All also as .gz, .xz and .zst.
What `clearhead bulk tokenize` wrote has the tokens of documents in place of their text.
"""

import glob
import itertools
import logging
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clearhead.data.tables import open_hub
from clearhead.errors import BadInput, NotFound, explained, require, valid_text
from clearhead.io import (
    BytesRead,
    Progress,
    content_suffix,
    decompressed,
    file_digest,
    optional,
    read_object,
    text_field,
)

log = logging.getLogger(__name__)

# of a folder that `clearhead bulk` fills, whose name tells those who read a folder of parquet to pass it over
MANIFEST = "_manifest.json"
TOKENIZER = "clearhead.tokenizer"  # under which a parquet file has the digest of the tokenizer that made its ids
_SAMPLE = 1_000_000  # characters in which a blank line is looked for
_LINE_LIMIT = 10_000_000  # bytes; a longer line of a .txt file is read in pieces
_ROWS = 1000


class Corpus:
    """Files, folders, patterns such as "wiki/*.jsonl.xz" and hub data sets ("hub:owner/name[:config[:split]]").

    Files keep the order given; those of a folder or pattern are sorted by name, and none is read twice.
    """

    def __init__(self, sources: str | Path | Sequence[str | Path], *, field: str = "text") -> None:
        named = [sources] if isinstance(sources, str | Path) else list(sources)
        require(bool(named), "A corpus needs at least one file, folder, pattern or hub:owner/name.", BadInput)
        self.field = field
        self.sources = list(dict.fromkeys(found for name in named for found in _sources(name)))

    @property
    def size(self) -> int:
        """Bytes of all files as stored, the measure of progress; hub data sets are not known before they are read."""
        return sum(source.stat().st_size for source in self.sources if isinstance(source, Path))

    @cached_property
    def digests(self) -> list[str]:
        """SHA-256 of each file as stored: where these and the field are the same, the documents are.

        A hub data set is not read for that: it is known by its name alone.
        """
        return [source if isinstance(source, str) else file_digest(source) for source in self.sources]

    def documents(self, progress: Progress | None = None) -> Iterator[str]:
        """Read the documents in order; `progress` is told of bytes as stored."""
        done = 0
        read = BytesRead(progress)
        for source in self.sources:
            if isinstance(source, str):
                yield from _strings(
                    (row.get(self.field) for row in open_hub(source, streaming=True)), source, self.field
                )
                continue
            with decompressed(source) as (raw, content):
                for text in _READERS[content_suffix(source)](source, content, self.field):
                    yield text
                    read.up_to(done + raw.tell())
            done += source.stat().st_size
        read.up_to(done, last=True)

    @cached_property
    def tokenised(self) -> str | None:
        """The digest of the tokenizer, where all files have tokens in place of text."""
        made = {_tokenizer_of(source) for source in self.sources}
        told = "the files of the corpus are not of one kind: text, or tokens of one tokenizer; name those of one kind"
        require(len(made) == 1, told, BadInput)
        return made.pop()

    def tokens(self, progress: Progress | None = None) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Of documents that are tokenised the ids, and the lengths of their sentences; of one without text, none."""
        files, without = [Path(source) for source in self.sources], 0
        for folder in dict.fromkeys(one.parent for one in files):
            _check_complete(folder)
        for source in files:
            parquet = optional("pyarrow.parquet", f"reading {source.name}")
            with explained(BadInput, f"{source} cannot be read ({{}}); tokenise its text again."):
                for batch in parquet.ParquetFile(source).iter_batches(_ROWS, columns=["ids", "sentences"]):
                    without += batch.column("ids").null_count
                    columns = [batch.column(name) for name in ("ids", "sentences")]
                    for row in range(len(batch)):
                        ids, lengths = (np.asarray(one[row].values or (), np.int32) for one in columns)
                        yield ids, lengths
            if progress is not None:
                progress(source.stat().st_size)
        if without:
            log.warning("%d documents had no text, as their column error says, and were left out.", without)


def _tokenizer_of(source: Path | str) -> str | None:
    """The digest of the tokenizer that made a file's ids; None where it holds text."""
    if isinstance(source, str) or source.suffix != ".parquet":
        return None
    arrow, parquet = (optional(name, f"reading {source.name}") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        found = (parquet.read_schema(source).metadata or {}).get(TOKENIZER.encode())
    except (arrow.ArrowException, OSError) as error:
        raise BadInput(f"{source} is not parquet ({error}).") from None
    return None if found is None else str(found.decode())


def _check_complete(folder: Path) -> None:
    """Refuse what a run of `clearhead bulk` has not ended."""
    if (folder / MANIFEST).exists():
        wanted, there = len(read_object(folder / MANIFEST, BadInput).get("shards", ())), len([*folder.glob("part-*")])
        told = f"{folder} holds {there:,} of {wanted:,} parts, since `clearhead bulk` has not ended; run it again"
        require(there == wanted, told, BadInput)


def _sources(name: str | Path) -> list[Path | str]:
    return [str(name)] if str(name).startswith("hub:") else [*find_by_ending(name, _READERS)]


def find_by_ending(name: str | Path, endings: Collection[str]) -> list[Path]:
    """The file of a name, or those of a folder or pattern, sorted; what ends otherwise (packed or not) is refused."""
    path, known = Path(name), ", ".join(endings) + " (or these with .gz, .xz, .zst)"
    if path.is_dir():
        found = sorted(inner for inner in path.rglob("*") if inner.is_file() and content_suffix(inner) in endings)
        require(bool(found), f"The folder {path} holds no file that ends in {known}.", NotFound)
    elif not path.exists() and glob.has_magic(str(name)):
        matches = glob.glob(str(name), recursive=True)  # noqa: PTH207 – Path.glob takes no absolute pattern
        found = sorted(Path(match) for match in matches if Path(match).is_file())
        require(bool(found), f"No file fits the pattern {name}; check it.", NotFound)
    else:
        require(path.exists(), f"There is no file {path}; check the name.", NotFound)
        found = [path]
    for path in found:
        fits = content_suffix(path) in endings
        require(fits, f"{path} ends in none of {known}; rename or convert it, or leave it out.", BadInput)
    return found


def _lines(path: Path, content: BinaryIO) -> Iterator[str]:
    """Lines of UTF-8, decoded one by one so that the bad one can be named."""
    for number in itertools.count(1):
        if not (line := content.readline(_LINE_LIMIT)):
            return
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{path}, line {number} is not UTF-8 text; convert the file, or leave it out.") from None


def _text(path: Path, content: BinaryIO, field: str) -> Iterator[str]:
    lines = _lines(path, content)
    first: list[str] = []
    seen = 0
    while seen < _SAMPLE and (line := next(lines, "")):
        first.append(line)
        seen += len(line)
    blank = [not line.strip() for line in first]
    between = False in blank and True in blank[blank.index(False) : len(blank) - blank[::-1].index(False)]
    everything = itertools.chain(first, lines)
    if not between:
        yield from (text for line in everything if (text := line.strip()))
        return
    for filled, document in itertools.groupby(everything, key=lambda line: bool(line.strip())):
        if filled:
            yield "".join(document).strip()


def _jsonl(path: Path, content: BinaryIO, field: str) -> Iterator[str]:
    for number, line in enumerate(_lines(path, content), start=1):
        if line.strip():
            yield text_field(line, field, f"{path}, line {number}")


def _parquet(path: Path, content: BinaryIO, field: str) -> Iterator[str]:
    arrow = optional("pyarrow", f"reading {path.name}")
    parquet = optional("pyarrow.parquet", f"reading {path.name}")
    with tempfile.TemporaryFile() as whole:
        if path.suffix != ".parquet":  # it is read from the end, which packing does not allow
            shutil.copyfileobj(content, whole)
            content = whole
        try:
            table = parquet.ParquetFile(content)
            names = table.schema_arrow.names
            todo = ""
            if TOKENIZER.encode() in (table.schema_arrow.metadata or {}):
                todo = " Its text is tokenised: name the tokenizer, or give the text."
            require(field in names, f'{path} has no column "{field}"; it has {", ".join(names)}.{todo}', BadInput)
            rows = itertools.chain.from_iterable(
                batch.column(0).to_pylist() for batch in table.iter_batches(_ROWS, columns=[field])
            )
            yield from _strings(rows, str(path), field)
        except arrow.ArrowException as error:
            raise BadInput(f"{path} is not parquet ({error}).") from None


def _strings(rows: Iterator[Any], source: str, field: str) -> Iterator[str]:
    for number, text in enumerate(rows, start=1):
        require(isinstance(text, str), f'{source}, row {number} has no string under "{field}".', BadInput)
        yield valid_text(text)


_READERS = {".txt": _text, ".jsonl": _jsonl, ".parquet": _parquet}
