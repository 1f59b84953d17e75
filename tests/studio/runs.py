"""A training run as it lies in a folder."""

import json
from pathlib import Path

from clearhead.training.monitor import METRICS


def row(step: int) -> dict[str, float]:
    evaluated = {"evaluation/accuracy": 50 + step / 10} if step % 100 == 0 else {}
    place = {"step": step, "epoch": step / 100, "tokens": 64 * step, "elapsed": 0.5 * step}
    measured = {"loss": 9 / step, "tokens_per_second": 128.0, "norm": 1.0, "learning_rate": 1e-4 / step}
    return place | measured | evaluated


def write_run(folder: Path, steps: int = 200) -> Path:
    """Rows every ten steps, in the "run" folder of what a recipe writes."""
    (folder / "run").mkdir(parents=True)
    for step in range(10, steps + 1, 10):
        add_row(folder, step)
    return folder


def add_row(folder: Path, step: int) -> None:
    with (folder / "run" / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row(step)) + "\n")
