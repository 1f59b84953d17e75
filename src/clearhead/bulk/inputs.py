"""Files cut into shards, and the rows of a shard: parquet, jsonl, csv, tsv and text, packed or not.

A shard is a part of one file: rows of a parquet file, or bytes of another's content that begin and end with a line.
How files are cut depends on them and on the number of rows alone. A row that cannot be read is one with an error.
"""

import csv
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from clearhead.data.corpus import find_by_ending
from clearhead.errors import BadInput, NotFound, explained, require, valid_text
from clearhead.io import content_suffix, decompressed, optional, parse_json

KINDS = {".parquet": "parquet", ".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".txt": "text", ".md": "text"}
_ENDS = 1 << 16  # bytes at either end by which a file is known, with its size: all of it would take as long as the work
_SHARD_BYTES = 1 << 26  # of texts: what a worker should hold at once
_SNIFFED = 100  # lines of jsonl whose keys are its columns
_PACKED = 1 << 20  # bytes that are unpacked at once where a shard begins further on
_BATCH = 4096  # rows of parquet that are decoded at once


@dataclass(frozen=True)
class Source:
    """A file: its `name` is its path from the folder that all files have in common, wherever that is."""

    path: str
    name: str
    kind: str
    size: int
    digest: str
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()  # those of parquet; what other files hold is text


@dataclass(frozen=True)
class Shard:
    """A part of a file: its rows, or bytes, from `start` to `stop`; the first row is in this line, from 1."""

    source: int
    start: int
    stop: int
    line: int
    rows: int


@dataclass(frozen=True)
class Rows:
    """The rows of a shard: columns by name (those of parquet are Arrow's), the line of each, and what is wrong."""

    columns: dict[str, Any]
    lines: list[int]
    errors: dict[int, str]


def find_sources(names: Sequence[str | Path], out: Path) -> list[Source]:
    """The files named, of folders and patterns all that can be read, but none of those that are written to `out`."""
    found: list[Path] = []
    for name in names:
        inside = [one for one in find_by_ending(name, KINDS) if out.resolve() not in one.resolve().parents]
        inside = [one for one in inside if len(inside) == 1 or not one.name.startswith(".")]
        require(bool(inside), f"{name} holds nothing but what is written to {out}; name other files", BadInput)
        found += inside
    paths = list(dict.fromkeys(one.absolute() for one in found))
    common = Path(os.path.commonpath([one.parent for one in paths]))
    return [_source(one, one.relative_to(common).as_posix()) for one in paths]


def _source(path: Path, name: str) -> Source:
    require(path.is_file(), f"{path} is no file; name files, folders or patterns", BadInput)
    size, kind = path.stat().st_size, KINDS[content_suffix(path)]
    packed = path.suffix not in KINDS
    require(kind != "parquet" or not packed, f"{path} is packed, and parquet is read from its end; unpack it", BadInput)
    try:
        with path.open("rb") as file:
            ends = file.read(_ENDS)
            file.seek(max(size - _ENDS, 0))
            ends += file.read(_ENDS)
    except OSError as wrong:
        raise BadInput(f"{path} cannot be read ({wrong.strerror})") from None
    digest = hashlib.sha256(ends).hexdigest()
    if kind == "parquet":
        with _open_parquet(path) as file:
            schema = file.schema_arrow
            return Source(str(path), name, kind, size, digest, tuple(schema.names), tuple(map(str, schema.types)))
    return Source(str(path), name, kind, size, digest, _columns(path, kind))


def _columns(path: Path, kind: str) -> tuple[str, ...]:
    if kind == "text":
        return ("text",)
    with decompressed(path) as (_, content):
        if kind == "jsonl":
            return _keys(path, content)
        fields = next((_fields(kind, one) for *_, one in _records(path, kind, content)), [])
    repeated = sorted({one for one in fields if fields.count(one) > 1})
    require(not repeated, f"{path} has two columns named {', '.join(map(repr, repeated))}; name them apart", BadInput)
    return tuple(fields)


def _keys(path: Path, content: BinaryIO) -> tuple[str, ...]:
    keys: dict[str, None] = {}
    seen = 0
    for line, _ in zip(content, range(_SNIFFED), strict=False):
        try:
            record = parse_json(line.decode("utf-8-sig"), str(path))
        except (UnicodeDecodeError, BadInput):
            continue
        if isinstance(record, dict):
            seen += 1
            keys |= dict.fromkeys(record)
    told = f"the first {_SNIFFED} lines of {path} hold no JSON object"
    require(seen > 0 or path.stat().st_size == 0, f"{told}; is it of another kind?", BadInput)
    return tuple(keys)


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    arrow, parquet = (optional(name, f"reading {path.name}") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with path.open("rb") as raw, parquet.ParquetFile(raw) as file:
            yield file
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except (arrow.ArrowException, OSError) as wrong:
        raise BadInput(f"{path} is not parquet, or damaged ({str(wrong).partition(chr(10))[0]}).") from None


# ---- cutting ------------------------------------------------------------------------------------------------------


def plan(sources: Sequence[Source], texts: Sequence[Sequence[str]], rows: int) -> list[Shard]:
    """Cut every file into shards of at most so many rows, fewer where their `texts` are long."""
    return [shard for number, one in enumerate(sources) for shard in _cut(number, one, texts[number], rows)]


def _cut(number: int, source: Source, texts: Sequence[str], rows: int) -> Iterator[Shard]:
    path = Path(source.path)
    if source.kind == "parquet":
        with _open_parquet(path) as file:
            for start, stop in pairwise(_borders(file.metadata, texts, rows)):
                yield Shard(number, start, stop, start + 1, stop - start)
        return
    with decompressed(path) as (_, content):
        records = _records(path, source.kind, content)
        if source.kind in ("csv", "tsv"):
            next(records, None)  # the header
        begun: tuple[int, int] | None = None
        held = stop = 0
        for line, start, stop, _ in records:
            begun = begun or (line, start)
            held += 1
            if held >= rows or stop - begun[1] >= _SHARD_BYTES:
                yield Shard(number, begun[1], stop, begun[0], held)
                begun, held = None, 0
        if begun is not None:
            yield Shard(number, begun[1], stop, begun[0], held)


def _borders(metadata: Any, texts: Sequence[str], rows: int) -> list[int]:
    """Rows where shards begin: with a row group, where these are small enough; else also within one."""
    borders, here, held, size = [0], 0, 0, 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        names = [(one.path_in_schema.partition(".")[0], one.total_uncompressed_size) for one in columns]
        count, weight = group.num_rows, sum(size for name, size in names if name in texts)
        if held and (held + count > rows or size + weight > _SHARD_BYTES):
            borders.append(here)
            held = size = 0
        most = max(min(rows, count * _SHARD_BYTES // max(weight, 1)), 1)
        if count > most:
            borders += range(here + most, here + count, most)
            borders.append(here + count)
        else:
            held, size = held + count, size + weight
        here += count
    return sorted({*borders, here})


# ---- reading ------------------------------------------------------------------------------------------------------


def read_rows(source: Source, shard: Shard, wanted: Sequence[str]) -> Rows:
    """The rows of a shard, of which these columns are wanted."""
    path = Path(source.path)
    if source.kind == "parquet":
        with _open_parquet(path) as file:
            return _read_parquet(path, file, shard, list(dict.fromkeys(wanted)))
    found: dict[str, list[Any]] = {name: [] for name in wanted}
    lines: list[int] = []
    errors: dict[int, str] = {}
    with decompressed(path) as (raw, content):
        if content is raw:
            raw.seek(shard.start)
        else:
            left = shard.start
            while left and (skipped := len(content.read(min(left, _PACKED)))):
                left -= skipped
        for line, _, stop, one in _records(path, source.kind, content, shard.start, shard.line):
            record: dict[str, Any] = {}
            if source.kind != "jsonl" or one.strip():
                try:
                    record = _record(source, one)
                except BadInput as wrong:
                    errors[len(lines)] = f"{source.name}, line {line} {str(wrong).strip()}"
                for name in found:
                    found[name].append(record.get(name))
                lines.append(line)
            if stop >= shard.stop:
                break
    return Rows(dict(found), lines, errors)


def _read_parquet(path: Path, file: Any, shard: Shard, wanted: list[str]) -> Rows:
    arrow = optional("pyarrow", f"reading {path.name}")
    groups: list[int] = []
    here = first = 0
    for number in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(number).num_rows
        if here < shard.stop and here + count > shard.start:
            first = first if groups else here
            groups.append(number)
        here += count
    parts, here = [], first
    with explained(BadInput, f"{path} cannot be read ({{}})."):
        for batch in file.iter_batches(_BATCH, row_groups=groups, columns=wanted, use_threads=False):
            start, stop = max(shard.start - here, 0), min(shard.stop - here, len(batch))
            if start < stop:
                parts.append(batch.slice(start, stop - start))
            here += len(batch)
            if here >= shard.stop:
                break
        table = arrow.Table.from_batches(parts)
    require(len(table) == shard.rows, f"{path} has other rows than when it was cut; begin anew", BadInput)
    columns = {name: table.column(name).combine_chunks() for name in wanted}
    return Rows(columns, list(range(shard.line, shard.line + shard.rows)), {})


def _record(source: Source, one: Any) -> dict[str, Any]:
    """A line as a record; what is wrong with it is what follows where it stands."""
    if source.kind == "jsonl":
        record = parse_json(_text(one), "")
        require(isinstance(record, dict), "is no JSON object", BadInput)
        return dict(record)
    if source.kind == "text":
        return {"text": valid_text(_text(one))}
    fields = _fields(source.kind, one)
    told = f"has {len(fields)} columns, not {len(source.columns)}"
    require(len(fields) == len(source.columns), told, BadInput)
    for field in fields:
        _text(field.encode("utf-8", "surrogateescape"))
    return dict(zip(source.columns, fields, strict=True))


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8 text") from None


def _fields(kind: str, one: Any) -> list[str]:
    if kind == "csv":
        return list(one)
    return str(one.decode("utf-8", "surrogateescape")).split("\t")


def _records(
    path: Path, kind: str, content: BinaryIO, start: int = 0, line: int = 1
) -> Iterator[tuple[int, int, int, Any]]:
    """Every line, or record of csv: its number, where it begins and ends in the content, its bytes or its fields."""
    if kind == "csv":
        yield from _csv_records(path, content, start, line)
        return
    for number, one in enumerate(content, start=line):
        text = one.removeprefix(_MARK) if start == 0 else one
        yield number, start, start + len(one), text.removesuffix(b"\n").removesuffix(b"\r")
        start += len(one)


_MARK = b"\xef\xbb\xbf"  # which some put at the beginning of UTF-8


def _csv_records(path: Path, content: BinaryIO, start: int, line: int) -> Iterator[tuple[int, int, int, Any]]:
    end, ended = start, line

    def lines() -> Iterator[str]:
        """As many lines as the reader takes for a record, which is how it is known where that ends."""
        nonlocal end, ended
        for one in content:
            text = one.removeprefix(_MARK) if end == 0 else one
            end, ended = end + len(one), ended + 1
            yield text.decode("utf-8", "surrogateescape")

    before = csv.field_size_limit(sys.maxsize)  # the limit belongs to the whole process: it is put back
    try:
        for fields in csv.reader(lines(), strict=True):
            if fields:
                yield line, start, end, fields
            start, line = end, ended
    except csv.Error as wrong:
        told = str(wrong).partition(" - ")[0]  # behind it stands what a programmer might do
        raise BadInput(f"{path}, line {line} is not csv ({told}); mend that line, or save it as CSV in UTF-8") from None
    finally:
        csv.field_size_limit(before)
