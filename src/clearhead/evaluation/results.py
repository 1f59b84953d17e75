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
    """Columns such as "SST-2 accuracy", a task and a metric; lines of each split, the lectures' first, then ours."""

    name: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


SPLITS = ("dev", "test", "human")  # which are never compared with one another; humans were measured on test sets
# as printed, in percent; null where no value was. The slides show WMT14 as bars: its numbers are those of the paper
TABLES = tuple(
    Table(
        table["name"],
        tuple(table["columns"]),
        tuple(
            Line(
                model,
                table.get("source", "lectures"),
                split,
                tuple(None if value is None else Cell(value) for value in values),
            )
            for model, split, values in table["lines"]
        ),
    )
    for table in read_json(Path(__file__).with_name("lectures.json"))
)


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
        both = f"Rows {seen.get(key)} and {number} both give {one.metric} of {one.model} on {one.task}"
        require(one.seed is None or key not in seen, f"{both} for seed {one.seed}; keep one.", BadInput)
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
        lines = sorted((*table.lines, *_lines(keys, measurements)), key=_place)
        joined.append(replace(table, lines=tuple(lines)))
        known.update(keys)
    every = {_key(one.task, one.metric): f"{one.task} {one.metric}" for one in measurements}
    if others := {key: column for key, column in every.items() if key not in known}:
        joined.append(Table("Not in the lectures", tuple(others.values()), _lines(list(others), measurements)))
    return joined


def _place(line: Line) -> int:
    """Development data first, then tests, then people; where nothing is said, at the end."""
    return SPLITS.index(line.split) if line.split in SPLITS else len(SPLITS)


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
        layout = "  ".join(f"{{:{'<' if place < 3 else '>'}{width}}}" for place, width in enumerate(widths))
        parts.append(f"{table.name}\n" + "".join(f"  {layout.format(*row).rstrip()}\n" for row in rows))
    return "\n".join(parts)


def _texts(table: Table) -> list[list[str]]:
    head = ["model", "source", "split", *table.columns]
    return [head] + [
        [line.model, line.source, line.split, *("–" if cell is None else str(cell) for cell in line.cells)]
        for line in table.lines
    ]
