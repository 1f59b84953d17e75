"""Ctrl-C and SIGTERM as a wish to stop after the present step, with everything saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Wish:
    """Whether somebody asked the run to stop, and by which signal."""

    signal: int | None = None

    @property
    def stop(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None


@contextmanager
def interruptible() -> Iterator[Wish]:
    """Note the first signal; a second Ctrl-C interrupts at once, as usual. Only the main thread gets signals."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if wish.stop and number == signal.SIGINT:
            raise KeyboardInterrupt
        wish.signal = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
