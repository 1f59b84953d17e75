"""Our own figures: rows of a JSON file, one for each run and metric."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.data.json_files import read_json
from clearhead.errors import BadInput, require


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
