"""Rows with named columns out of csv, tsv, json, jsonl, parquet and the hub, and which column is which."""

import csv
import io
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.errors import BadInput, NotFound, require
from clearhead.io import BytesRead, Progress, decompressed, optional, parse_json, read_json, read_lines, read_text

log = logging.getLogger(__name__)

TEXTS = ("sentence", "text", "review", "message", "content", "document")
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),  # with capitals in GLUE's diagnostic-full.tsv
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
    ("sentence_A", "sentence_B"),
    ("text1", "text2"),
    ("anchor", "positive"),
    ("first", "second"),
    ("text", "pair"),
    ("query", "passage"),
    ("query", "positive"),
    ("article", "highlights"),  # CNN/DailyMail
    ("document", "summary"),  # XSum
)
CLASSES = ("gold_label", "label", "labels", "class", "category", "Quality", "is_duplicate", "entailment_judgment")
SCORES = ("score", "similarity", "similarity_score", "relatedness_score", "relevance", "label")

# published files in which texts broke over several lines, so that rows without all columns are no mistake of the user's
_BROKEN = (("id", "qid1", "qid2", "question1", "question2", "is_duplicate"), ("id", "question1", "question2"))
_SHOWN = 3  # lines that a message names

Row = Sequence[object]


@dataclass(frozen=True)
class Table:
    """Rows and the names of their columns; `unit` and `numbers` say where each row stands, as in "line 7"."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row]
    unit: str
    numbers: Sequence[int]

    def __post_init__(self) -> None:
        require(bool(self.rows), f"{self.name} has no rows; check the file.", BadInput)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[object]:
        """All values of one column."""
        there = ", ".join(map(repr, self.columns))
        require(name in self.columns, f"{self.name} has no column {name!r}; it has {there}.", BadInput)
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def keep(self, rows: Sequence[int]) -> "Table":
        """The table of some of the rows, which stand where they stood."""
        kept, numbers = [self.rows[row] for row in rows], [self.numbers[row] for row in rows]
        return Table(self.name, self.columns, kept, self.unit, numbers)

    def where(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"{self.name}, {self.unit} {self.numbers[row]}"

    def places(self) -> Iterator[str]:
        """Where each row stands."""
        return map(self.where, range(len(self)))


Source = str | Path | Table  # a table that was read already is taken as it is


def open_table(source: Source, header: Sequence[str] | None = None) -> Table:
    """Read a data set of the hub, or a file by its ending: csv, json, jsonl, parquet; any other is read as tsv.

    `header` names the columns of a csv or tsv file whose first line is data already. A tsv file has no quotes (as in
    GLUE); CoLA's, WikiQA's and the SMS collection's are known without a header.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, str) and source.startswith("hub:"):
        return read_hub(source)
    path = Path(source)
    if path.suffix == ".parquet":
        return _parquet(path)
    return _records(path) if path.suffix in (".json", ".jsonl") else _lines(path, header)


def open_pairs(source: str | Path) -> Table:
    """Read two texts a row, as columns "first" and "second": by the usual names of columns, or both of two.

    A csv or tsv file of two columns needs no header: its first line is data, unless it names them as usual.
    """
    path = Path(source)
    header: tuple[str, ...] | None = None
    if path.suffix not in (".json", ".jsonl", ".parquet"):
        _, fields = next(_csv(path) if path.suffix == ".csv" else _tsv(path), (1, []))
        named = {field.strip().lower() for field in fields} in [{one.lower() for one in pair} for pair in PAIRS]
        header = ("first", "second") if len(fields) == 2 and not named else None
    table = open_table(source, header)
    known = {column.lower() for column in table.columns}
    usual = any({one.lower() for one in pair} <= known for pair in PAIRS)
    there = ", ".join(repr(column[:40]) for column in table.columns)
    todo = 'leave two columns, or name two of them "first" and "second"'
    fits = usual or len(table.columns) == 2
    require(fits, f"{table.name} has no two texts a row: its columns are {there}; {todo}.", BadInput)
    if usual:
        first, second = choose_texts(table, None, None, need_pair=True)
    else:
        first, second = table.columns
    rows: list[Row] = list(zip(table.column(first), table.column(str(second)), strict=True))
    return Table(table.name, ("first", "second"), rows, table.unit, table.numbers)


def from_records(
    name: str, records: Sequence[dict[str, Any]], unit: str = "row", numbers: Sequence[int] | None = None
) -> Table:
    """Make a table of records; the columns are all keys, and a record without a key has None there."""
    columns = tuple(dict.fromkeys(key for record in records for key in record))
    rows: list[Row] = [[record.get(column) for column in columns] for record in records]
    return Table(name, columns, rows, unit, numbers or range(1, len(rows) + 1))


def _lines(path: Path, header: Sequence[str] | None) -> Table:
    found = list(_rows(path, _csv(path) if path.suffix == ".csv" else _tsv(path), header))
    columns = found[0][0] if found else ()
    return Table(str(path), columns, [fields for _, _, fields in found], "line", [line for _, line, _ in found])


def _rows(
    path: Path, lines: Iterable[tuple[int, list[str]]], header: Sequence[str] | None
) -> Iterator[tuple[tuple[str, ...], int, list[str]]]:
    """The columns, which are the same all along, the line and the fields of each row."""
    broken: list[int] = []
    columns = header
    blank: int | None = None
    for line, fields in lines:
        if not fields:
            if columns is not None and tuple(columns) in _BROKEN:
                broken.append(line)
            else:
                blank = blank or line
            continue
        require(blank is None, f"{path}, line {blank} is empty; take it out.", BadInput)
        if columns is None and (columns := _published_header(path, fields)) is None:
            columns = fields
            repeated = sorted({column for column in columns if columns.count(column) > 1})
            require(
                not repeated, f"{path} has two columns named {', '.join(map(repr, repeated))}; rename one.", BadInput
            )
            continue
        told = f"{len(fields)} columns, not {len(columns)} ({', '.join(columns)})"
        if len(fields) != len(columns) and tuple(columns) in _BROKEN:
            broken.append(line)
            continue
        todo = "mend the line, or take it out"
        require(len(fields) == len(columns), f"{path}, line {line} has {told}; {todo}.", BadInput)
        yield tuple(columns), line, fields
    if broken:
        shown = ", ".join(map(str, broken[:_SHOWN])) + (", …" if len(broken) > _SHOWN else "")
        log.warning("%s: %d broken rows without all columns are left out (lines %s)", path, len(broken), shown)


def _published_header(path: Path, fields: list[str]) -> tuple[str, ...] | None:
    if path.suffix == ".csv":
        return None
    match fields:
        case [query, passage, other] if path.name.startswith(("triples", "qidpidtriples")):
            numbers = query.isdecimal() and passage.isdecimal() and other.isdecimal()
            told = f"{path} holds numbers of queries and passages, not their texts"
            require(not numbers, f"{told}; give triples.train.small.tsv, which has the texts.", BadInput)
            header: tuple[str, ...] = ("query", "positive", "negative")
        case ["ham" | "spam", _]:
            header = ("label", "text")
        case [_, _, "0" | "1"]:
            header = ("question", "sentence", "label")
        case [_, "0" | "1", "" | "*", _]:
            header = ("source", "label", "mark", "sentence")
        case _:
            return None
    log.info("%s: no header line; the columns are taken to be %s.", path, ", ".join(header))
    return header


def _tsv(path: Path, lines: Iterable[str] | None = None) -> Iterator[tuple[int, list[str]]]:
    given = read_lines(path) if lines is None else lines
    return enumerate((line.split("\t") if line else [] for line in given), start=1)


def _csv(path: Path, text: Iterable[str] | None = None) -> Iterator[tuple[int, list[str]]]:
    before = csv.field_size_limit(sys.maxsize)  # the limit belongs to the whole process: it is put back
    line = 1
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline="") if text is None else text, strict=True)
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(f"{path}, line {line} is not csv ({error}); mend its quotes.") from None
    finally:
        csv.field_size_limit(before)


def open_blocks(source: Source, rows: int, progress: Progress | None = None) -> Iterator[Table]:
    """Read a file of any size as tables of so many rows, none of which is held longer than it is looked at.

    Of jsonl, csv, tsv and parquet; `progress` is told how many more bytes of the file were read.
    """
    path = Path(str(source))
    whole = isinstance(source, Table) or str(source).startswith("hub:") or path.suffix == ".json"
    told = f"{source} is read whole; to stream it, give a file of lines (.jsonl, .csv, .tsv) or .parquet"
    require(not whole, told, BadInput)
    read = BytesRead(progress)
    if path.suffix == ".parquet":
        yield from _parquet_blocks(path, rows, read)
        return
    empty = True
    with decompressed(path) as (raw, content):
        # a csv field may hold line breaks, which its reader wants as they are
        text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="" if path.suffix == ".csv" else "\n")
        for block in _blocks_of_lines(path, text, rows):
            yield block
            empty = False
            read.up_to(raw.tell())
        read.up_to(raw.tell(), last=True)
    require(not empty, f"{path} has no rows; check the file.", BadInput)


def _blocks_of_lines(path: Path, text: Iterable[str], rows: int) -> Iterator[Table]:
    if path.suffix == ".jsonl":
        columns: tuple[str, ...] = ()
        written = ((number, line) for number, line in enumerate(text, start=1) if line.strip())
        while block := dict(islice(written, rows)):
            found = [parse_json(line, f"{path}, line {number}") for number, line in block.items()]
            columns, table = _known_columns(columns, _of_records(path, found, "line", list(block)))
            yield table
        return
    plain = (line.removesuffix("\n").rstrip("\r") for line in text)
    given = _rows(path, _csv(path, text) if path.suffix == ".csv" else _tsv(path, plain), None)
    while some := list(islice(given, rows)):
        yield Table(str(path), some[0][0], [row for _, _, row in some], "line", [line for _, line, _ in some])


def _known_columns(before: tuple[str, ...], table: Table) -> tuple[tuple[str, ...], Table]:
    """The columns so far, and a block with all of them: a record may leave out a key that others have."""
    columns = tuple(dict.fromkeys((*before, *table.columns)))
    places = [table.columns.index(name) if name in table.columns else None for name in columns]
    rows: list[Row] = [[None if at is None else row[at] for at in places] for row in table.rows]
    return columns, Table(table.name, columns, rows, table.unit, table.numbers)


def _parquet_blocks(path: Path, rows: int, read: BytesRead) -> Iterator[Table]:
    require(path.is_file(), f"There is no file {path}; check the name.", NotFound)
    pyarrow: Any = optional("pyarrow", f"reading {path}")
    size, before = path.stat().st_size, 0
    try:
        with optional("pyarrow.parquet", f"reading {path}").ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=rows):
                numbers = range(before + 1, before + batch.num_rows + 1)
                yield from_records(str(path), batch.to_pylist(), numbers=numbers)
                before += batch.num_rows
                read.up_to(size * before // file.metadata.num_rows, last=before == file.metadata.num_rows)
    except pyarrow.ArrowException as error:
        raise BadInput(f"{path} is not parquet ({error}).") from None
    require(before > 0, f"{path} has no rows; check the file.", BadInput)


def _records(path: Path) -> Table:
    if path.suffix == ".json":
        whole = read_json(path)
        found: Any = whole.get("data") if isinstance(whole, dict) else whole
        require(
            isinstance(found, list),
            f'{path} is neither a list of records nor {{"data": [records]}}; write one of these.',
            BadInput,
        )
        unit, numbers = "record", list(range(1, len(found) + 1))
    else:
        lines = {number: line for number, line in enumerate(read_lines(path), start=1) if line.strip()}
        found = [parse_json(line, f"{path}, line {number}") for number, line in lines.items()]
        unit, numbers = "line", list(lines)
    return _of_records(path, found, unit, numbers)


def _of_records(path: Path, found: Sequence[Any], unit: str, numbers: Sequence[int]) -> Table:
    for number, record in zip(numbers, found, strict=True):
        require(
            isinstance(record, dict),
            f"{path}, {unit} {number} is not a record with named fields, {{…}}; mend it.",
            BadInput,
        )
    return from_records(str(path), found, unit, numbers)


def _parquet(path: Path) -> Table:
    require(path.is_file(), f"There is no file {path}; check the name.", NotFound)
    pyarrow: Any = optional("pyarrow", f"reading {path}")
    try:
        records = optional("pyarrow.parquet", f"reading {path}").read_table(path).to_pylist()
    except pyarrow.ArrowException as error:
        raise BadInput(f"{path} is not parquet ({error}).") from None
    return from_records(str(path), records)


_PART = re.compile(r":(?![^\[]*\])")  # a colon, but not the one of train[:100]
_SPLIT = re.compile(r"(train|validation|valid|dev|test)\w*(\[.*\])?")


def open_hub(name: str, *, streaming: bool = False) -> Any:
    """Open "hub:owner/name[:config][:split]": the split is train unless said.

    One word after the name is a split if it starts like one (train, validation, dev, test), and a config if not.
    """
    prefix, _, rest = name.partition(":")
    owner, *more = _PART.split(rest)
    named = prefix == "hub" and bool(owner) and len(more) <= 2 and all(more)
    todo = "write hub:owner/name, hub:owner/name:config:split"
    require(named, f"{name!r} is not a data set of the hub; {todo}.", BadInput)
    split = more.pop() if len(more) == 2 or (more and _SPLIT.fullmatch(more[0])) else "train"
    datasets: Any = optional("datasets", f"reading {name}")
    options = {"streaming": True} if streaming else {}
    try:
        return datasets.load_dataset(owner, more[0] if more else None, split=split, **options)
    except Exception as error:  # the library raises many kinds
        reason = str(error).partition("\n")[0]
        raise NotFound(f"The data set {name!r} cannot be had ({reason}); check name, config and split.") from None


def read_hub(name: str) -> Table:
    """Read a data set of the hub whole; classes come by name, not by number."""
    found = open_hub(name)
    inner = {column: getattr(feature, "feature", feature) for column, feature in found.features.items()}
    names = {column: getattr(feature, "names", None) for column, feature in inner.items()}
    records = [{column: _spell(value, names[column]) for column, value in row.items()} for row in found.to_list()]
    return from_records(name, records)


def _spell(value: Any, names: Any) -> Any:
    if not isinstance(names, list) or value is None:
        return value
    if isinstance(value, list):
        return [_spell(item, names) for item in value]
    return names[value] if value >= 0 else None  # -1 is the hub's way to say that there is no label


def choose(table: Table, role: str, given: str | None, usual: Sequence[str]) -> str | None:
    """Find the column for a role: the given one, or the first usual name that is there; None if none is."""
    if given is not None:
        require(given in table.columns, _missing(table, given, role), BadInput)
        return given
    found = next((column for name in usual for column in table.columns if column.lower() == name.lower()), None)
    if found is not None:
        log.info("%s: the %s is taken from column %r.", table.name, role, found)
    return found


def need(table: Table, role: str, given: str | None, usual: Sequence[str]) -> str:
    """The same, for a column that must be there."""
    found = choose(table, role, given, usual)
    require(found is not None, _missing(table, None, role), BadInput)
    return str(found)


def choose_texts(
    table: Table, text: str | None, pair: str | None, *, need_pair: bool = False
) -> tuple[str, str | None]:
    """Find the columns of one text or two; a text that is given without a pair stands alone."""
    alone = pair is not None and text is None
    require(not alone, f"Give the column of the first text too, not only pair={pair!r}.", BadInput)
    if text is not None and (pair is not None or not need_pair):
        return need(table, "text", text, ()), choose(table, "second text", pair, ())
    lower = [column.lower() for column in table.columns]
    for first, second in PAIRS:
        if first.lower() in lower and second.lower() in lower:
            names = table.columns[lower.index(first.lower())], table.columns[lower.index(second.lower())]
            log.info("%s: the texts are taken from columns %r and %r.", table.name, *names)
            return names
    return need(table, "two texts", None, ()) if need_pair else need(table, "text", None, TEXTS), None


def _missing(table: Table, name: str | None, role: str) -> str:
    there = ", ".join(repr(column[:40]) for column in table.columns)
    what = f"no column {name!r}" if name is not None else "no column with a usual name"
    todo = "Rename it, name it (--text, --pair, --label), or give a header if the file has none"
    return f"{table.name} has {what} for the {role}; its columns are {there}. {todo}."
