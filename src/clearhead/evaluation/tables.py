"""The lectures' tables with measured figures beside them: joined here, written as text, markdown or JSON."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from clearhead.evaluation.lectures import TABLES, Column
from clearhead.evaluation.measured import Measured

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
