"""Figures that a command measured, as lines of figures.jsonl: {figure, value, deviation, seeds, command}.

usage: clearhead finetune … --json (or evaluate) | python make-model/figures.py NAME COMMAND >> figures.jsonl
"""

import json
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows_of(result: Row, name: str, command: str) -> list[Row]:
    """Name each figure of a result of `clearhead finetune --json`, or of `evaluate`; one seed has no deviation."""
    figures = result.get("figures") or {key: value for key, value in result.items() if isinstance(value, float)}
    return [
        {
            "figure": f"{name}, {figure.replace('_', ' ')}",
            "value": value,
            "deviation": result.get("deviations", {}).get(figure),
            "seeds": result.get("seeds", 1),
            "command": command,
        }
        for figure, value in figures.items()
    ]


def read_figures(path: Path) -> dict[str, Row]:
    """Read what was measured, by name; of a figure that was measured again, the last."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return {row["figure"]: row for row in map(json.loads, lines)}


def main() -> None:
    name, command = sys.argv[1:]
    for line in sys.stdin:
        for row in rows_of(json.loads(line), name, command):
            print(json.dumps(row))


if __name__ == "__main__":
    main()
