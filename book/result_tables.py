"""Tables of measured figures, from benchmarks/results into docs/: python book/result_tables.py writes them anew.

A script of benchmarks/ writes such a file (`benchmarks/record.py`): the command, the date, the machine, the software,
the columns of a table and its rows. A page has the place of a table between `<!-- figures: NAME -->` and
`<!-- end -->`, and what stands there is made from benchmarks/results/NAME.json, so that nobody types a number of it. A
cell is a number, several that one format joins ("{:.2f} ± {:.2f}"), words, or null where nothing was measured.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
_PLACE = re.compile(r"<!-- figures: (\S+) -->\n.*?<!-- end -->", re.DOTALL)
KEYS = ("command", "date", "machine", "software", "columns", "rows")


def table(name: str) -> str:
    """One file as Markdown: a table, and under it what made it."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    heads, formats = zip(*found["columns"], strict=True)
    rows = [heads, ["---"] * len(heads), *(_cells(row, formats) for row in found["rows"])]
    lines = [f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |") for cells in rows]
    made = "; ".join(filter(None, (f"`{found['command']}`", found["date"], found["machine"], found["software"])))
    return "\n".join([*lines, "", f"<small>{made}; [figures](../benchmarks/results/{name}.json)</small>"])


def _cells(row: Sequence[Any], formats: Sequence[str]) -> list[str]:
    return [_cell(value, form) for value, form in zip(row, formats, strict=True)]


def _cell(value: Any, form: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    numbers = value if isinstance(value, list) else [value]
    shown = form.format(*numbers)
    return shown.replace("-", "−") if min(numbers) < 0 else shown


def filled(page: str) -> str:
    """A page with its tables as the files have them."""
    return _PLACE.sub(lambda place: f"<!-- figures: {place[1]} -->\n{table(place[1])}\n<!-- end -->", page)


def pages() -> Iterator[Path]:
    """The pages that have such tables."""
    return (path for path in sorted((ROOT / "docs").rglob("*.md")) if _PLACE.search(path.read_text(encoding="utf-8")))


def main() -> None:
    """Fill every page."""
    for path in pages():
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
