"""Learning rate and batch size as functions of progress, and how far a run has come: by steps, epochs or the clock."""

import math
from collections.abc import Callable

from clearhead.data.rng import BatchSource
from clearhead.training.checkpoint import State
from clearhead.training.distributed import Ranks
from clearhead.training.settings import Settings

COOLDOWN = 0.2  # share of a trapezoidal run that is spent going down

# what is left of the learning rate after the warm-up, by progress and the share of the warm-up
DECAYS: dict[str, Callable[[float, float], float]] = {
    "linear": lambda progress, warmup: (1 - progress) / (1 - warmup),
    "cosine": lambda progress, warmup: (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup))) / 2,
    # stays, and goes straight down at the end (Hägele et al. 2024)
    "trapezoidal": lambda progress, warmup: min(1.0, (1 - progress) / min(COOLDOWN, 1 - warmup)),
    "constant": lambda progress, warmup: 1.0,  # for a run that another goes on from
    "noam": lambda progress, warmup: math.sqrt(warmup / progress),  # Vaswani et al. 2017, section 5.3
    # the same, but the warm-up is at the full rate (Raffel et al. 2019, section 3.1.2)
    "inverse_sqrt": lambda progress, warmup: math.sqrt(warmup / progress),
}


def schedule(name: str, progress: float, warmup: float) -> float:
    """Share of the learning rate: straight up to 1 during the warm-up, then down as the decay of that name does."""
    if progress <= warmup:
        return progress / warmup if warmup and name != "inverse_sqrt" else 1.0
    return DECAYS[name](progress, warmup)


def ramp(progress: float, share: float, largest: int) -> int:
    """How many micro-batches a step has: from one to `largest` in the first `share` of the run."""
    return largest if progress >= share else max(1, math.ceil(largest * progress / share))


class Budget:
    """The length of a run. By the clock, warm-up and decay are planned on elapsed time and the run ends on time."""

    def __init__(self, settings: Settings, source: BatchSource) -> None:
        self._settings = settings
        self._batches = None if settings.epochs is None else max(1, source.batches_in(settings.epochs))
        self._total = settings.steps if self._batches is None else self._batches  # None by the clock
        self._seconds = 60 * (settings.minutes or 0.0)

    def progress(self, state: State) -> float:
        """Share of the run that is over in the middle of the coming step, so that no step learns at rate 0."""
        if self._total is not None:
            share = (self._counted(state) + 0.5) / self._total
        else:  # without the first step of each session: minutes of compiling would use up the warm-up
            planned = self._seconds - state.setup - state.closing
            share = (state.elapsed - state.setup + state.pace / 2) / planned if planned > 0 else 1.0
        return min(1.0, max(0.0, share))

    def done(self, state: State) -> bool:
        """Tell whether the run is over; by the clock, when another step and the closing work would come too late."""
        if self._total is not None:
            return self._counted(state) >= self._total
        return state.step > 0 and state.elapsed + state.pace + state.closing > self._seconds

    def _counted(self, state: State) -> int:
        return state.step if self._batches is None else state.index

    def micro_batches(self, state: State, progress: float) -> int:
        """How many micro-batches the coming step has; the last step of an epoch budget has what is left."""
        count = ramp(progress, self._settings.ramp, self._settings.accumulate)
        return count if self._batches is None else min(count, self._batches - state.index)


class Stopwatch:
    """Measures a session and writes into the state what the budget plans with."""

    def __init__(self, clock: Callable[[], float], ranks: Ranks, state: State) -> None:
        self._clock, self._ranks = clock, ranks
        self._start = clock() - state.elapsed
        self._begin = self._end = clock()
        self._fresh = True

    @property
    def elapsed(self) -> float:
        """Seconds of training, in all sessions, by this rank's clock."""
        return self._clock() - self._start

    def begin_step(self) -> None:
        """Note that a step begins."""
        self._begin = self._clock()

    def end_step(self, state: State) -> float:
        """Note that a step ended and give its seconds; what lies between two steps is evaluation and saving."""
        closing, now = self._begin - self._end, self._clock()
        times = [now - self._start, now - self._begin, 0.0 if self._fresh else closing]
        state.elapsed, taken, closing = self._ranks.from_first(times)
        state.closing = max(state.closing, closing)
        if self._fresh:
            state.setup += taken
        else:
            state.pace = taken
        self._fresh, self._end = False, now
        return taken
