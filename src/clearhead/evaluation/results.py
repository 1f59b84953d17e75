"""Measured figures beside the tables of the lectures: as text, markdown or JSON."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.io import read_json


@dataclass(frozen=True, slots=True)
class Column:
    """A task and the metric it reports, by the names our metric functions give."""

    task: str
    metric: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A line of a table: what was printed for a model on one split, None where nothing was."""

    model: str
    split: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LectureTable:
    """A table as printed, in percent."""

    name: str
    columns: tuple[Column, ...]
    lines: tuple[Reported, ...]


GLUE = LectureTable(
    "GLUE",
    (
        Column("MNLI-m", "accuracy"),
        Column("MNLI-mm", "accuracy"),
        Column("QQP", "f1"),
        Column("QNLI", "accuracy"),
        Column("SST-2", "accuracy"),
        Column("CoLA", "matthews"),
        Column("STS-B", "spearman"),
        Column("MRPC", "f1"),
        Column("RTE", "accuracy"),
        Column("GLUE", "average"),
    ),
    (
        Reported("Pre-OpenAI SOTA", "test", (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7, 74.0)),
        Reported("BiLSTM+ELMo+Attn", "test", (76.4, 76.1, 64.8, 79.9, 90.4, 36.0, 73.3, 84.9, 56.8, 71.0)),
        Reported("OpenAI GPT", "test", (82.1, 81.4, 70.3, 88.1, 91.3, 45.4, 80.0, 82.3, 56.0, 75.2)),
        Reported("BERT-base", "test", (84.6, 83.4, 71.2, 90.1, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6)),
        Reported("BERT-large", "test", (86.7, 85.9, 72.1, 91.1, 94.9, 60.5, 86.5, 89.3, 70.1, 81.9)),
    ),
)

SQUAD1 = LectureTable(
    "SQuAD 1.1",
    (Column("SQuAD 1.1", "exact_match"), Column("SQuAD 1.1", "f1")),
    (
        Reported("Human", "test", (82.3, 91.2)),
        Reported("BiDAF+ELMo", "dev", (None, 85.8)),
        Reported("BERT-base", "dev", (80.8, 88.5)),
        Reported("BERT-large", "dev", (84.1, 90.9)),
    ),
)

SQUAD2 = LectureTable(
    "SQuAD 2.0",
    (Column("SQuAD 2.0", "exact"), Column("SQuAD 2.0", "f1")),
    (
        Reported("Human", "test", (86.8, 89.5)),
        Reported("BERT + DAE + AoA (ensemble)", "test", (87.1, 89.5)),
    ),
)

CONLL = LectureTable(
    "CoNLL-2003",
    (Column("CoNLL-2003", "f1"),),
    (
        Reported("ELMo+BiLSTM+CRF", "dev", (95.7,)),
        Reported("BERT-base", "dev", (96.4,)),
        Reported("BERT-large", "dev", (96.6,)),
        Reported("ELMo+BiLSTM+CRF", "test", (92.2,)),
        Reported("CVT+Multi", "test", (92.6,)),
        Reported("BERT-base", "test", (92.4,)),
        Reported("BERT-large", "test", (92.8,)),
    ),
)

SWAG = LectureTable(
    "SWAG",
    (Column("SWAG", "accuracy"),),
    (
        Reported("ESIM+GloVe", "dev", (51.9,)),
        Reported("ESIM+ELMo", "dev", (59.1,)),
        Reported("BERT-base", "dev", (81.6,)),
        Reported("BERT-large", "dev", (86.6,)),
    ),
)

WMT = LectureTable(
    "WMT14",
    (Column("WMT14 en-de", "bleu"), Column("WMT14 en-fr", "bleu")),
    (
        Reported("Transformer base", "test", (27.3, 38.1)),
        Reported("Transformer big", "test", (28.4, 41.8)),
    ),
)

TABLES = (GLUE, SQUAD1, SQUAD2, CONLL, SWAG, WMT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One figure of one run, in percent where the lectures' tables are; the split it was measured on, if said."""

    task: str
    metric: str
    value: float
    model: str
    split: str = ""
    seed: int | None = None


def read_measured(path: str | Path) -> list[Measured]:
    """Read a JSON list of objects with task, metric, value, model, perhaps split and seed; other keys may follow."""
    rows = read_json(path)
    require(isinstance(rows, list), f"{path} holds no list of rows but a {type(rows).__name__}.", BadInput)
    return measured(rows)


def measured(rows: Iterable[Mapping[str, Any]]) -> list[Measured]:
    """Check rows; the same figure of the same seed may not be there twice."""
    figures: list[Measured] = []
    seen: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(rows):
        figure = _figure(row, number)
        key = (figure.task, figure.metric, figure.model, figure.split, figure.seed)
        require(
            figure.seed is None or key not in seen,
            f"Rows {seen.get(key)} and {number} both give {figure.metric} of {figure.model} on {figure.task} "
            f"for seed {figure.seed}; keep one.",
            BadInput,
        )
        seen[key] = number
        figures.append(figure)
    return figures


def _figure(row: Mapping[str, Any], number: int) -> Measured:
    require(isinstance(row, Mapping), f"Row {number} is {row!r}, not an object with task, metric, value.", BadInput)
    for key in ("task", "metric", "model"):
        require(
            isinstance(row.get(key), str) and bool(row[key]),
            f"Row {number} has {row.get(key)!r} as its {key}; give a text.",
            BadInput,
        )
    value, split, seed = row.get("value"), row.get("split", ""), row.get("seed")
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise BadInput(f"Row {number} has {value!r} as its value; give a number.")
    require(isinstance(split, str), f"Row {number} has {split!r} as its split; give a text such as dev.", BadInput)
    require(seed is None or isinstance(seed, int), f"Row {number} has {seed!r} as its seed; give an integer.", BadInput)
    return Measured(
        task=row["task"], metric=row["metric"], value=float(value), model=row["model"], split=split, seed=seed
    )


_SAME_TASK = {"mnli": "mnlim", "squad": "squad11", "squad1": "squad11", "squad2": "squad20", "conll": "conll2003"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure; over several runs their mean, with the standard deviation."""

    value: float
    deviation: float | None = None
    runs: int = 1

    def __str__(self) -> str:
        decimals = 1 if abs(self.value) >= 1 else 3
        mean = f"{self.value:.{decimals}f}"
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of a model on one split, None where there is none."""

    model: str
    source: str
    split: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns such as "SST-2 accuracy", and lines: the lectures' first, then ours."""

    name: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


def tables(figures: Sequence[Measured] = ()) -> list[Table]:
    """Put measured figures beside the lectures'; those of other tasks and metrics go into a table of their own."""
    joined = []
    for lecture in TABLES:
        lines = [
            Line(line.model, "lectures", line.split, tuple(v if v is None else Cell(v) for v in line.values))
            for line in lecture.lines
        ]
        joined.append(_table(lecture.name, lecture.columns, [*lines, *_lines(lecture.columns, figures)]))
    known = {_key(column.task, column.metric) for lecture in TABLES for column in lecture.columns}
    others = [figure for figure in figures if _key(figure.task, figure.metric) not in known]
    if others:
        columns = tuple(
            {_key(figure.task, figure.metric): Column(figure.task, figure.metric) for figure in others}.values()
        )
        joined.append(_table("Not in the lectures", columns, _lines(columns, others)))
    return joined


def as_json(shown: Sequence[Table]) -> str:
    """All tables as one JSON list."""
    return json.dumps([asdict(table) for table in shown], ensure_ascii=False, indent=2) + "\n"


def as_markdown(shown: Sequence[Table]) -> str:
    """Each table under a heading."""
    parts = []
    for table in shown:
        head, *rows = ([text.replace("|", "\\|") for text in row] for row in _texts(table))
        rule = ["---", "---", "---"] + ["---:"] * len(table.columns)
        parts.append(f"## {table.name}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in [head, rule, *rows]))
    return "\n".join(parts)


def as_text(shown: Sequence[Table]) -> str:
    """Each table with aligned columns, for a terminal."""
    parts = []
    for table in shown:
        rows = _texts(table)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligned = (
            "  ".join(
                text.ljust(width) if place < 3 else text.rjust(width)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )
        parts.append(f"{table.name}\n" + "".join(f"  {line}\n" for line in aligned))
    return "\n".join(parts)


def _table(name: str, columns: Sequence[Column], lines: Sequence[Line]) -> Table:
    return Table(name, tuple(f"{column.task} {column.metric}" for column in columns), tuple(lines))


def _lines(columns: Sequence[Column], figures: Sequence[Measured]) -> list[Line]:
    """One line for each model and split that has a figure in these columns, in the order they come."""
    keys = [_key(column.task, column.metric) for column in columns]
    found: dict[tuple[str, str], list[list[float]]] = {}
    for figure in figures:
        key = _key(figure.task, figure.metric)
        if key in keys:
            row = found.setdefault((figure.model, figure.split), [[] for _ in columns])
            row[keys.index(key)].append(figure.value)
    return [
        Line(model, "measured", split, _averaged(columns, [_cell(values) for values in row]))
        for (model, split), row in found.items()
    ]


def _cell(values: list[float]) -> Cell | None:
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Cell(math.fsum(values) / len(values), deviation, len(values))


def _averaged(columns: Sequence[Column], cells: list[Cell | None]) -> tuple[Cell | None, ...]:
    """Fill in an average that nobody gave: the mean of all columns beside it, as in the lectures, if all are there."""
    others = [cell.value for cell, column in zip(cells, columns, strict=True) if cell and column.metric != "average"]
    complete = len(others) == len(columns) - 1
    return tuple(
        Cell(statistics.fmean(others)) if column.metric == "average" and cell is None and complete else cell
        for cell, column in zip(cells, columns, strict=True)
    )


def _texts(table: Table) -> list[list[str]]:
    head = ["model", "source", "split", *table.columns]
    return [head] + [
        [line.model, line.source, line.split, *("–" if cell is None else str(cell) for cell in line.cells)]
        for line in table.lines
    ]


def _key(task: str, metric: str) -> tuple[str, str]:
    name = "".join(letter for letter in task.lower() if letter.isalnum())
    return _SAME_TASK.get(name, name), metric
