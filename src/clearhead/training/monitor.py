"""What a run tells: metrics.jsonl and a curve, progress on stderr, trackers; and whether a step is bad."""

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from torch import Tensor

from clearhead.errors import BadInput, ClearheadError
from clearhead.training.trackers import Tracker

log = logging.getLogger(__name__)

Row = dict[str, Any]

METRICS, CURVE = "metrics.jsonl", "curve.svg"
MEASURED = "evaluation/"  # before the names of what an evaluation gives
_A_LINE = 60.0  # seconds from one to the next where no terminal is


class Report:
    """Writes into the run's folder; on stderr it shows progress: a bar on a terminal, else a line a minute.

    Every row goes to the `trackers` as well; `config` is what they are told of the run.
    """

    def __init__(
        self, folder: Path, *, trackers: Sequence[Tracker] = (), config: Mapping[str, object] | None = None
    ) -> None:
        self._folder = folder
        self._trackers, self._config = list(trackers), dict(config or {})
        self._bar: Progress | None = None
        self._line = TaskID(0)
        self._quiet = False
        self._said = 0.0  # when the last line was written
        self._begun = False

    def begin(self, step: int, *, quiet: bool) -> None:
        """Start or resume at a step; `quiet` (all ranks but the first) writes and shows nothing."""
        self._quiet, self._said = quiet, time.monotonic()
        if quiet:
            return
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
        # not in `begin` alone: a run that goes back tells them again what comes after
        self._tell(lambda tracker: tracker.begin(self._folder, step, self._config), needed=not self._begun)
        self._begun = True

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
        self._tell(lambda tracker: tracker.log(row))

    def draw(self) -> None:
        """Write the curve of the rows so far; `clearhead look runs` makes a page of them."""
        if not self._quiet:
            _replace(self._folder / CURVE, curve(read_rows(self._folder)))

    def end(self) -> None:
        """Take the progress off the terminal and close what is open."""
        if self._bar is not None:
            self._bar.stop()
        if not self._quiet:
            self._tell(lambda tracker: tracker.end())

    def _tell(self, what: Callable[[Tracker], None], *, needed: bool = False) -> None:
        """Tell every tracker; one that fails costs no run: it is told no more, unless it could not begin."""
        for tracker in list(self._trackers):
            try:
                with _writing(self._folder) if needed else nullcontext():
                    what(tracker)
            except Exception as error:
                if needed or isinstance(error, ClearheadError):  # by which a hook may end the run
                    raise
                self._trackers.remove(tracker)
                log.warning("the tracker %s failed and is told no more of this run: %r", type(tracker).__name__, error)


def read_rows(folder: Path) -> list[Row]:
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


WIDTH, HEIGHT, MARGIN = 640, 320, 44
POINTS = 400  # more are not seen; neighbours are averaged
_COLOURS = ("#1f6feb", "#d1495b")


def curve(rows: list[Row]) -> str:
    """Draw the training loss, and the evaluation's if there is one, over steps."""
    found = {name: points for name in ("loss", "evaluation/loss") if (points := _points(rows, name))}
    every = [point for points in found.values() for point in points]
    if not every:
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"></svg>\n'
    last, low, high = max(x for x, _ in every), min(y for _, y in every), max(y for _, y in every)
    high = high if high > low else low + 1

    def place(x: float, y: float) -> str:
        across = MARGIN + (WIDTH - 2 * MARGIN) * x / max(last, 1)
        return f"{across:.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (y - low) / (high - low):.1f}"

    lines = [
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(place(*p) for p in points)}"/>'
        f'<text x="{WIDTH - MARGIN}" y="{MARGIN + 16 * number}" fill="{colour}" text-anchor="end">{escape(name)}</text>'
        for number, ((name, points), colour) in enumerate(zip(found.items(), _COLOURS, strict=False))
    ]
    bottom = HEIGHT - MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><path d="M{MARGIN} {MARGIN}V{bottom}H{WIDTH - MARGIN}" fill="none" stroke="#888"/>'
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{high:.3g}</text>'
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end">{low:.3g}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{bottom + 18}" text-anchor="end">step {last:.0f}</text>{"".join(lines)}</svg>\n'
    )


def _points(rows: list[Row], name: str) -> list[tuple[float, float]]:
    points = [(float(row["step"]), float(row[name])) for row in rows if row.get(name) is not None]
    size = 1 + len(points) // POINTS
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


MEMORY = 0.98  # how much of the running mean and variance stays at each step
SETTLED = 50  # steps before anything finite can be far away
DEVIATIONS = 6.0  # how far the gradient's norm must be from its mean, and
RATIO = 10.0  # how many times the mean
HIGH = 3.0  # deviations of the loss


@dataclass(kw_only=True)
class RunningStats:
    """Running mean and variance of a positive number's logarithm."""

    seen: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def limit(self, deviations: float, ratio: float) -> float:
        """Give the value from which on one lies far above what came before."""
        return math.exp(self._ceiling(deviations, ratio)) if self.seen >= SETTLED else math.inf

    def add(self, value: float) -> None:
        """Learn from a value; of one far away only so much that a lasting new level is accepted in time."""
        if not math.isfinite(value) or value <= 0:
            return
        log = math.log(value)
        log = min(log, self._ceiling(DEVIATIONS, RATIO)) if self.seen >= SETTLED else log
        self.seen += 1
        share = max(1 - MEMORY, 1 / self.seen)  # a plain mean at first
        away = log - self.mean
        self.mean += share * away
        self.variance = (1 - share) * (self.variance + share * away**2)

    def _ceiling(self, deviations: float, ratio: float) -> float:
        return self.mean + max(math.log(ratio), deviations * math.sqrt(self.variance))


def is_bad(norms: RunningStats, losses: RunningStats, norm: Tensor, loss: Tensor) -> Tensor:
    """Judge a step: not finite, or a gradient far too large together with a loss that went up.

    Both, because gradients also grow when a model leaves a plateau, and then the loss goes down. The judgement stays
    where the numbers are: on a GPU, the host would have to wait for it.
    """
    far = (norm > norms.limit(DEVIATIONS, RATIO)) & (loss > losses.limit(HIGH, 1.0))
    return far | ~(norm.isfinite() & loss.isfinite())
