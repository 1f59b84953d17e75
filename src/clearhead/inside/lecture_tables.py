"""The tables page: the lectures' results (GLUE, SQuAD, CoNLL …), with the rows that were measured here."""

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.errors import keywords
from clearhead.evaluation.results import Line, measured, read_measured, tables
from clearhead.hub.remote import BOX, FOLDER
from clearhead.inside.page import View

SCRIPTS = ("main.js",)
FIGURES = "figures.json"  # beside the built-in models that were measured


@keywords
def lecture_tables(rows: Sequence[Mapping[str, Any]] | None = None) -> View:
    """Show the lectures' tables with these rows of task, metric, value, model and split; else the built-in models'."""
    files = [file for name in BOX if (file := FOLDER / name / FIGURES).is_file()]
    ours = [one for file in files for one in read_measured(file)] if rows is None else measured(rows)
    shown = [
        {"name": table.name, "columns": list(table.columns), "lines": [_line(line) for line in table.lines]}
        for table in tables(ours)
    ]
    return View.of("tables", "Tables of the lectures", SCRIPTS, {"tables": shown})


def _line(line: Line) -> dict[str, Any]:
    values = [None if cell is None else round(cell.value, 1) for cell in line.cells]
    return {"model": line.model, "source": line.source, "split": line.split, "values": values}
