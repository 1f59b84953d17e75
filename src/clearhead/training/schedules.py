"""Learning rate and batch size as pure functions of progress: 0 is the start of a run, 1 its end."""

import math
from collections.abc import Callable

COOLDOWN = 0.2  # share of a trapezoidal run that is spent going down


def linear(progress: float, warmup: float) -> float:
    """Go up to 1 during the warm-up, then straight down to 0."""
    return _rise(progress, warmup) if progress < warmup else (1 - progress) / (1 - warmup)


def cosine(progress: float, warmup: float) -> float:
    """Go up to 1 during the warm-up, then down to 0 along half a cosine."""
    if progress < warmup:
        return _rise(progress, warmup)
    return (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup))) / 2


def trapezoidal(progress: float, warmup: float) -> float:
    """Go up to 1 during the warm-up, stay, and go straight down to 0 at the end (Hägele et al. 2024)."""
    cooldown = min(COOLDOWN, 1 - warmup)
    return min(_rise(progress, warmup), 1.0, (1 - progress) / cooldown)


def noam(progress: float, warmup: float) -> float:
    """Go up to 1 during the warm-up, then down with the square root of the time (Vaswani et al. 2017, section 5.3)."""
    return _rise(progress, warmup) if progress <= warmup else math.sqrt(warmup / progress)


def constant(progress: float, warmup: float) -> float:
    """Go up to 1 during the warm-up and stay, for a run that another goes on from."""
    return min(_rise(progress, warmup), 1.0)


def ramp(progress: float, share: float, largest: int) -> int:
    """How many micro-batches a step has: from one to `largest` in the first `share` of the run."""
    return largest if progress >= share else max(1, math.ceil(largest * progress / share))


def _rise(progress: float, warmup: float) -> float:
    return progress / warmup if warmup else 1.0


SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "linear": linear,
    "cosine": cosine,
    "trapezoidal": trapezoidal,
    "constant": constant,
    "noam": noam,
}
