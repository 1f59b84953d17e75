"""Measured metrics beside the tables of the lectures: as text, markdown or JSON."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.io import read_json


@dataclass(frozen=True, slots=True)
class Cell:
    """A value; over several runs their mean, with the standard deviation."""

    value: float
    deviation: float | None = None
    runs: int = 1

    def __str__(self) -> str:
        decimals = 1 if abs(self.value) >= 1 else 3
        mean = f"{self.value:.{decimals}f}"
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a model on one split, None where there is none."""

    model: str
    source: str
    split: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns such as "SST-2 accuracy", a task and a metric, and lines: the lectures' first, then ours."""

    name: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


def _lecture(name: str, columns: str, *lines: tuple[str, str, tuple[float | None, ...]]) -> Table:
    """A table as printed, in percent: a model, the split, and its values, None where none was printed."""
    return Table(
        name,
        tuple(columns.split(", ")),
        tuple(
            Line(model, "lectures", split, tuple(None if value is None else Cell(value) for value in values))
            for model, split, values in lines
        ),
    )


GLUE = _lecture(
    "GLUE",
    "MNLI-m accuracy, MNLI-mm accuracy, QQP f1, QNLI accuracy, SST-2 accuracy, CoLA matthews, STS-B spearman, MRPC f1, "
    "RTE accuracy, GLUE average",
    ("Pre-OpenAI SOTA", "test", (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7, 74.0)),
    ("BiLSTM+ELMo+Attn", "test", (76.4, 76.1, 64.8, 79.9, 90.4, 36.0, 73.3, 84.9, 56.8, 71.0)),
    ("OpenAI GPT", "test", (82.1, 81.4, 70.3, 88.1, 91.3, 45.4, 80.0, 82.3, 56.0, 75.2)),
    ("BERT-base", "test", (84.6, 83.4, 71.2, 90.1, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6)),
    ("BERT-large", "test", (86.7, 85.9, 72.1, 91.1, 94.9, 60.5, 86.5, 89.3, 70.1, 81.9)),
)
SQUAD1 = _lecture(
    "SQuAD 1.1",
    "SQuAD 1.1 exact_match, SQuAD 1.1 f1",
    ("Human", "test", (82.3, 91.2)),
    ("BiDAF+ELMo", "dev", (None, 85.8)),
    ("BERT-base", "dev", (80.8, 88.5)),
    ("BERT-large", "dev", (84.1, 90.9)),
)
SQUAD2 = _lecture(
    "SQuAD 2.0",
    "SQuAD 2.0 exact, SQuAD 2.0 f1",
    ("Human", "test", (86.8, 89.5)),
    ("BERT + DAE + AoA (ensemble)", "test", (87.1, 89.5)),
)
CONLL = _lecture(
    "CoNLL-2003",
    "CoNLL-2003 f1",
    ("ELMo+BiLSTM+CRF", "dev", (95.7,)),
    ("BERT-base", "dev", (96.4,)),
    ("BERT-large", "dev", (96.6,)),
    ("ELMo+BiLSTM+CRF", "test", (92.2,)),
    ("CVT+Multi", "test", (92.6,)),
    ("BERT-base", "test", (92.4,)),
    ("BERT-large", "test", (92.8,)),
)
SWAG = _lecture(
    "SWAG",
    "SWAG accuracy",
    ("ESIM+GloVe", "dev", (51.9,)),
    ("ESIM+ELMo", "dev", (59.1,)),
    ("BERT-base", "dev", (81.6,)),
    ("BERT-large", "dev", (86.6,)),
)
WMT = _lecture(
    "WMT14",
    "WMT14 en-de bleu, WMT14 en-fr bleu",
    ("Transformer base", "test", (27.3, 38.1)),
    ("Transformer big", "test", (28.4, 41.8)),
)
TABLES = (GLUE, SQUAD1, SQUAD2, CONLL, SWAG, WMT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A metric of one run, in percent where the lectures' tables are; the split it was measured on, if said."""

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
    """Check rows; the same metric of the same seed may not be there twice."""
    found: list[Measured] = []
    seen: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(rows):
        one = _checked(row, number)
        key = (one.task, one.metric, one.model, one.split, one.seed)
        require(
            one.seed is None or key not in seen,
            f"Rows {seen.get(key)} and {number} both give {one.metric} of {one.model} on {one.task} "
            f"for seed {one.seed}; keep one.",
            BadInput,
        )
        seen[key] = number
        found.append(one)
    return found


def _checked(row: Mapping[str, Any], number: int) -> Measured:
    require(isinstance(row, Mapping), f"Row {number} is {row!r}, not an object with task, metric, value.", BadInput)

    task, metric, model = (row.get(key) for key in ("task", "metric", "model"))
    value, split, seed = row.get("value"), row.get("split", ""), row.get("seed")
    real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    for key, given, fits, wanted in (
        ("task", task, isinstance(task, str) and task, "a text"),
        ("metric", metric, isinstance(metric, str) and metric, "a text"),
        ("model", model, isinstance(model, str) and model, "a text"),
        ("value", value, real, "a number"),
        ("split", split, isinstance(split, str), "a text such as dev"),
        ("seed", seed, seed is None or isinstance(seed, int), "an integer"),
    ):
        require(bool(fits), f"Row {number} has {given!r} as its {key}; give {wanted}.", BadInput)
    return Measured(task=task, metric=metric, value=float(value), model=model, split=split, seed=seed)  # type: ignore[arg-type]


_SAME_TASK = {"mnli": "mnlim", "squad": "squad11", "squad1": "squad11", "squad2": "squad20", "conll": "conll2003"}


Key = tuple[str, str]  # a task, however it is spelt, and a metric


def tables(measurements: Sequence[Measured] = ()) -> list[Table]:
    """Put what was measured beside the lectures' tables; other tasks and metrics go into a table of their own."""
    joined, known = [], set[Key]()
    for table in TABLES:
        keys = [_key(*column.rsplit(" ", 1)) for column in table.columns]
        joined.append(replace(table, lines=table.lines + _lines(keys, measurements)))
        known.update(keys)
    others = {
        key: f"{one.task} {one.metric}" for one in measurements if (key := _key(one.task, one.metric)) not in known
    }
    if others:
        lines = _lines(list(others), measurements)
        joined.append(Table("Not in the lectures", tuple(others.values()), lines))
    return joined


def _key(task: str, metric: str) -> Key:
    name = "".join(letter for letter in task.lower() if letter.isalnum())
    return _SAME_TASK.get(name, name), metric


def _lines(keys: list[Key], measurements: Sequence[Measured]) -> tuple[Line, ...]:
    """One line for each model and split that was measured in these columns, in the order they come."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for one in measurements:
        key = _key(one.task, one.metric)
        if key in keys:
            row = found.setdefault((one.model, one.split), [[] for _ in keys])
            row[keys.index(key)].append(one.value)
    lines = []
    for (model, split), row in found.items():
        cells = [_cell(values) for values in row]
        # an average that nobody gave is the mean of all columns beside it, as in the lectures, if all are there
        others = [cell.value for cell, (_, metric) in zip(cells, keys, strict=True) if cell and metric != "average"]
        averages = [place for place, (_, metric) in enumerate(keys) if metric == "average" and cells[place] is None]
        if averages and len(others) == len(keys) - 1:
            cells[averages[0]] = Cell(statistics.fmean(others))
        lines.append(Line(model, "measured", split, tuple(cells)))
    return tuple(lines)


def _cell(values: list[float]) -> Cell | None:
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Cell(math.fsum(values) / len(values), deviation, len(values))


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


def _texts(table: Table) -> list[list[str]]:
    head = ["model", "source", "split", *table.columns]
    return [head] + [
        [line.model, line.source, line.split, *("–" if cell is None else str(cell) for cell in line.cells)]
        for line in table.lines
    ]
