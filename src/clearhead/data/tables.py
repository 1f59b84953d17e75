"""Rows with named columns out of csv, tsv, json, jsonl and parquet files. A row that does not fit is an error."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from clearhead.errors import BadInput, NotFound, require
from clearhead.text.streams import optional

Row = Sequence[object]


@dataclass(frozen=True)
class Table:
    """Rows and the names of their columns; `places` says where each row stands, as in "line 7"."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row]
    places: Sequence[str]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[object]:
        """All values of one column."""
        require(
            name in self.columns,
            f"{self.name} has no column {name!r}; it has {', '.join(map(repr, self.columns))}.",
            BadInput,
        )
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def where(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"{self.name}, {self.places[row]}"


def read_table(path: str | Path, header: Sequence[str] | None = None) -> Table:
    """Read a file by its ending; `header` names the columns of a csv or tsv file whose first line is data already.

    A tsv file has no quotes (as in GLUE); anything that is not csv, json, jsonl or parquet is read as tsv.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        require(path.is_file(), f"There is no file {path}; check the name.", NotFound)
        return _parquet(path)
    try:
        with path.open(encoding="utf-8-sig", newline="" if path.suffix == ".csv" else "\n") as file:
            if path.suffix in (".json", ".jsonl"):
                return _records(path, file)
            return _lines(path, file, header)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); convert it.") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}).") from None


def from_records(name: str, records: Sequence[dict[str, Any]], places: Sequence[str]) -> Table:
    """Make a table of records; the columns are all keys, and a record without a key has None there."""
    columns = tuple(dict.fromkeys(key for record in records for key in record))
    return Table(name, columns, [[record.get(column) for column in columns] for record in records], places)


def _lines(path: Path, file: TextIO, header: Sequence[str] | None) -> Table:
    rows: list[Row] = []
    places: list[str] = []
    columns = None if header is None else tuple(header)
    blank: int | None = None
    for line, fields in _csv(path, file) if path.suffix == ".csv" else _tsv(file):
        if not fields:
            blank = blank or line
            continue
        require(blank is None, f"{path}, line {blank} is empty; take it out.", BadInput)
        if columns is None:
            columns = tuple(fields)
            repeated = sorted({column for column in columns if columns.count(column) > 1})
            require(not repeated, f"{path} has two columns named {', '.join(map(repr, repeated))}.", BadInput)
            continue
        require(
            len(fields) == len(columns),
            f"{path}, line {line} has {len(fields)} columns, not {len(columns)} ({', '.join(columns)}).",
            BadInput,
        )
        rows.append(fields)
        places.append(f"line {line}")
    require(bool(rows), f"{path} has no rows.", BadInput)
    return Table(str(path), columns or (), rows, places)


def _tsv(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(file, start=1):
        line = line.rstrip("\r\n")
        yield number, line.split("\t") if line else []


def _csv(path: Path, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    before = csv.field_size_limit(sys.maxsize)  # the limit belongs to the whole process: it is put back
    line = 1
    try:
        reader = csv.reader(file, strict=True)
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(f"{path}, line {line} is not csv ({error}).") from None
    finally:
        csv.field_size_limit(before)


def _records(path: Path, file: TextIO) -> Table:
    if path.suffix == ".json":
        whole = _json(file.read(), str(path))
        found: Any = whole.get("data") if isinstance(whole, dict) else whole
        require(isinstance(found, list), f'{path} is neither a list of records nor {{"data": [records]}}.', BadInput)
        places = [f"record {i}" for i in range(1, len(found) + 1)]
    else:
        lines = [(f"line {i}", line) for i, line in enumerate(file, start=1) if line.strip()]
        found = [_json(line, f"{path}, {place}") for place, line in lines]
        places = [place for place, _ in lines]
    for place, record in zip(places, found, strict=True):
        require(isinstance(record, dict), f"{path}, {place} is not a record with named fields.", BadInput)
    require(bool(found), f"{path} has no rows.", BadInput)
    return from_records(str(path), found, places)


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON ({error}).") from None


def _parquet(path: Path) -> Table:
    pyarrow: Any = optional("pyarrow", f"reading {path}")
    read: Callable[[Path], Any] = optional("pyarrow.parquet", f"reading {path}").read_table
    try:
        records = read(path).to_pylist()
    except pyarrow.ArrowException as error:
        raise BadInput(f"{path} is not parquet ({error}).") from None
    require(bool(records), f"{path} has no rows.", BadInput)
    return from_records(str(path), records, [f"row {i}" for i in range(1, len(records) + 1)])
