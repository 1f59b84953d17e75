"""The time a run has used, the same on every rank."""

from collections.abc import Callable

from clearhead.training.distributed import Ranks
from clearhead.training.state import State


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
