"""What a run tells: metrics.jsonl and pictures in its folder, progress on stderr, TensorBoard if asked."""

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from clearhead.errors import BadInput, NotFound
from clearhead.training.page import curve, page
from clearhead.training.settings import Settings

METRICS, BOARD = "metrics.jsonl", "tensorboard"
_A_LINE = 60.0  # seconds from one to the next where no terminal is


class Report:
    """Writes into the run's folder; on stderr it shows progress: a bar on a terminal, else a line a minute."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self._folder = folder
        self._boards: Any = _boards() if tensorboard else None
        self._board: Any = None
        self._settings: dict[str, Any] = {}
        self._bar: Progress | None = None
        self._line = TaskID(0)
        self._quiet = False
        self._said = 0.0  # when the last line was written

    def begin(self, settings: Settings, step: int, *, quiet: bool) -> None:
        """Start or resume at a step; `quiet` (all ranks but the first) writes and shows nothing."""
        self._quiet, self._said = quiet, time.monotonic()
        if quiet:
            return
        self._settings = settings.to_json()
        with _writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        self.rewind(step)
        if sys.stderr.isatty():
            columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._line = self._bar.add_task("", total=1.0)
            self._bar.start()

    def rewind(self, step: int) -> None:
        """Drop the rows after a step, which will come again, and a row that was cut short."""
        if self._quiet:
            return
        rows = [row for row in read_rows(self._folder) if row["step"] <= step]
        _replace(self._folder / METRICS, "".join(json.dumps(row) + "\n" for row in rows))
        if self._boards is not None:
            self._close()
            with _writing(self._folder / BOARD):
                self._board = self._boards(str(self._folder / BOARD), purge_step=step + 1)

    def tick(self, step: int, loss: float, rate: float, progress: float, elapsed: float) -> None:
        """Show one step."""
        now = time.monotonic()
        if self._quiet or (self._bar is None and now - self._said < _A_LINE):
            return
        left = elapsed * (1 - progress) / progress if progress else math.nan
        text = f"step {step}  loss {loss:.4f}  {rate:,.0f} tokens/s  {progress:.0%}  {_clock(left)} left"
        if self._bar is not None:
            self._bar.update(self._line, completed=progress, description=text)
        else:
            self._said = now
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def log(self, row: dict[str, float]) -> None:
        """Append a row of numbers."""
        if self._quiet:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in row.items()}
        path = self._folder / METRICS
        with _writing(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite) + "\n")
        if self._board is not None:
            with _writing(self._folder / BOARD):
                for name in row.keys() - {"step"}:
                    self._board.add_scalar(name, row[name], int(row["step"]))

    def draw(self) -> None:
        """Write curve.svg and report.html from the rows so far."""
        if self._quiet:
            return
        rows = read_rows(self._folder)
        picture = curve(rows)
        for name, text in (("curve.svg", picture), ("report.html", page(self._settings, rows, picture))):
            _replace(self._folder / name, text)

    def end(self) -> None:
        """Take the progress off the terminal and close what is open."""
        if self._bar is not None:
            self._bar.stop()
        self._close()

    def _close(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            with _writing(self._folder / BOARD):
                board.close()


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl; a row that was being written when the run was killed is left out."""
    path = folder / METRICS
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "step" in row:
            rows.append(row)
    return rows


def _boards() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise NotFound("TensorBoard is not installed; run: pip install tensorboard") from None
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return SummaryWriter


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is the old one or the new one, never half of it."""
    stage = path.with_name(f".{path.name}")
    with _writing(path):
        try:
            stage.write_text(text, encoding="utf-8")
            stage.replace(path)
        except OSError:
            stage.unlink(missing_ok=True)
            raise


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot write {path}: {error.strerror or error}; what was saved is whole: "
            "make room, or give a folder that can be written to, and start again to resume"
        ) from error


def _clock(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
