"""Telling a spike of the loss and its gradient from the ordinary noise of training."""

import math
from dataclasses import dataclass

from torch import Tensor

MEMORY = 0.98  # how much of the running mean and variance stays at each step
SETTLED = 50  # steps before anything finite can be far away
DEVIATIONS = 6.0  # how far the gradient's norm must be from its mean, and
RATIO = 10.0  # how many times the mean
HIGH = 3.0  # deviations of the loss


@dataclass(kw_only=True)
class Noise:
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


def is_bad(norms: Noise, losses: Noise, norm: Tensor, loss: Tensor) -> Tensor:
    """Judge a step: not finite, or a gradient far too large together with a loss that went up.

    Both, because gradients also grow when a model leaves a plateau, and then the loss goes down. The judgement stays
    where the numbers are: on a GPU, the host would have to wait for it.
    """
    far = (norm > norms.limit(DEVIATIONS, RATIO)) & (loss > losses.limit(HIGH, 1.0))
    return far | ~(norm.isfinite() & loss.isfinite())
