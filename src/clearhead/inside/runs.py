"""Training runs side by side: loss, learning rate, throughput and evaluation, as far as they have come."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearhead.errors import BadInput, NotFound, keywords, require
from clearhead.inside.page import View
from clearhead.training.monitor import METRICS, read_rows

SCRIPTS = ("shared/svg.js", "chart.js", "main.js")
POINTS = 500  # of one curve; more are not seen, so neighbours are averaged
LIMIT = 12  # runs; more colours cannot be told apart


@keywords
def training_runs(folders: Sequence[str | os.PathLike[str]]) -> View:
    """Show the runs in these folders, each the output folder of a recipe or its "run" folder.

    The page is a picture of now; in the studio it follows runs that still train.
    """
    require(not isinstance(folders, str), "folders must be a list of folders, not one", BadInput)
    count = len(folders)
    require(1 <= count <= LIMIT, f"{count} runs cannot be shown; name 1 to {LIMIT} folders of runs", BadInput)
    found = [_run_folder(Path(folder)) for folder in folders]
    data = {"runs": [{"name": name, **_columns(folder)} for name, folder in zip(_names(found), found, strict=True)]}
    return View.of("runs", "Training runs", SCRIPTS, data)


def _run_folder(folder: Path) -> Path:
    for place in (folder, folder / "run"):
        if (place / METRICS).is_file():
            return place
    raise NotFound(f"there is no {METRICS} in {folder}; name the folder of a training run")


def _names(folders: Sequence[Path]) -> list[str]:
    """Short names, which say as much of the path as it takes to tell the runs apart."""
    paths = [folder.resolve() for folder in folders]
    parts = [(path.parent if path.name == "run" else path).parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


def _columns(folder: Path) -> dict[str, Any]:
    """A list of numbers for each thing that was measured, as long as "step"; None where it was not."""
    rows = read_rows(folder)
    size = -(-len(rows) // POINTS) or 1
    groups = [rows[start : start + size] for start in range(0, len(rows), size)]
    names = dict.fromkeys(name for row in rows for name in row)
    return {"columns": {name: [_mean(group, name) for group in groups] for name in names}}


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
    # eight digits are more than a picture shows, and keep the page small
    return float(f"{sum(values) / len(values):.8g}") if values else None
