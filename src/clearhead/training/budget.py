"""How much of a run is over: by steps, by batches (epochs), or by the clock."""

from clearhead.data.source import Source
from clearhead.training.schedules import ramp
from clearhead.training.settings import Settings
from clearhead.training.state import State


class Budget:
    """The length of a run. By the clock, warm-up and decay are planned on elapsed time and the run ends on time."""

    def __init__(self, settings: Settings, source: Source) -> None:
        self._settings = settings
        self._batches = None if settings.epochs is None else max(1, source.batches_in(settings.epochs))
        self._seconds = None if settings.minutes is None else 60 * settings.minutes

    def progress(self, state: State) -> float:
        """Share of the run that is over in the middle of the coming step, so that no step learns at rate 0."""
        if self._settings.steps is not None:
            share = (state.step + 0.5) / self._settings.steps
        elif self._batches is not None:
            share = (state.index + 0.5) / self._batches
        else:
            assert self._seconds is not None  # noqa: S101  settings have exactly one
            # without the first step of each session: minutes of compiling would use up the warm-up
            planned = self._seconds - state.setup - state.closing
            share = (state.elapsed - state.setup + state.pace / 2) / planned if planned > 0 else 1.0
        return min(1.0, max(0.0, share))

    def done(self, state: State) -> bool:
        """Tell whether the run is over; by the clock, when another step and the closing work would come too late."""
        if self._settings.steps is not None:
            return state.step >= self._settings.steps
        if self._batches is not None:
            return state.index >= self._batches
        assert self._seconds is not None  # noqa: S101  settings have exactly one
        return state.step > 0 and state.elapsed + state.pace + state.closing > self._seconds

    def micro_batches(self, state: State, progress: float) -> int:
        """How many micro-batches the coming step has; the last step of an epoch budget has what is left."""
        count = ramp(progress, self._settings.ramp, self._settings.accumulate)
        return count if self._batches is None else min(count, self._batches - state.index)
