"""Which learning rate to begin with: a sweep from small to large over a few batches (Smith 2017)."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from clearhead.data.rng import BatchSource
from clearhead.io import Progress, Record
from clearhead.training.distributed import Ranks, local_device
from clearhead.training.optim import make_optimisers, set_learning_rate, update
from clearhead.training.settings import Settings
from clearhead.training.step import ForwardBackward, PendingMetrics, activation_checkpointing
from clearhead.training.tasks.task import Task

LOW, HIGH, STEPS = 1e-6, 1e-1, 100
_SMOOTHING = 0.9  # of the loss, whose noise is larger than what a small rate changes
_DIVERGED = 3.0  # times the best smoothed loss, from where on nothing more is learnt
_SETTLED = 10  # steps until a smoothed loss says anything
_WIDTH, _HEIGHT, _MARGIN = 640, 320, 44


@dataclass(frozen=True, kw_only=True)
class RateSweep(Record):
    """The smoothed loss at each learning rate, up to where it diverged, and the rate at which it fell fastest.

    `suggestion` is None where it did not fall.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    suggestion: float | None

    def picture(self) -> str:
        """The losses over the learning rate, whose axis is logarithmic, as SVG; a line marks what is suggested."""
        low, high = min(self.losses), max(max(self.losses), min(self.losses) + 1e-9)
        bottom, decades = _HEIGHT - _MARGIN, math.log10(HIGH / LOW)

        def across(rate: float) -> float:
            return _MARGIN + (_WIDTH - 2 * _MARGIN) * math.log10(rate / LOW) / decades

        def down(loss: float) -> float:
            return bottom - (_HEIGHT - 2 * _MARGIN) * (loss - low) / (high - low)

        points = [f"{across(x):.1f},{down(y):.1f}" for x, y in zip(self.rates, self.losses, strict=True)]
        ticks = [
            f'<text x="{across(LOW * 10**n):.0f}" y="{bottom + 18}" text-anchor="middle">{LOW * 10**n:.0e}</text>'
            for n in range(round(decades) + 1)
        ]
        mark = ""
        if self.suggestion is not None:
            x = across(self.suggestion)
            mark = (
                f'<path d="M{x:.1f} {_MARGIN}V{bottom}" stroke="#d1495b" stroke-dasharray="4"/>'
                f'<text x="{x + 6:.1f}" y="{_MARGIN}" fill="#d1495b">{self.suggestion:.1e}</text>'
            )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
            f'font-size="12"><path d="M{_MARGIN} {_MARGIN}V{bottom}H{_WIDTH - _MARGIN}" fill="none" stroke="#888"/>'
            f'<text x="{_MARGIN - 6}" y="{_MARGIN + 4}" text-anchor="end">{high:.3g}</text>'
            f'<text x="{_MARGIN - 6}" y="{bottom}" text-anchor="end">{low:.3g}</text>{"".join(ticks)}'
            f'<polyline fill="none" stroke="#1f6feb" stroke-width="1.5" points="{" ".join(points)}"/>{mark}</svg>\n'
        )


def sweep_learning_rates(
    task: Task,
    source: BatchSource,
    settings: Settings,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> RateSweep:
    """Train for a hundred steps with a rate that grows from 1e-6 to 1e-1, each step by the same factor.

    Steps are as large as the settings say, with their optimiser and precision; the sweep ends where the loss diverges.
    The network has its old weights afterwards. Progress is told of steps.
    """
    place = local_device(device)
    network = task.network.to(place).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    rates: list[float] = []
    losses: list[float] = []
    try:
        with activation_checkpointing(network, settings.checkpointing):
            backprop = ForwardBackward(task, settings, place, Ranks())
            optimisers = make_optimisers(network, settings)
            smoothed, pieces = 0.0, 1
            for step in range(STEPS):
                rate = LOW * (HIGH / LOW) ** (step / (STEPS - 1))
                numbers = range(step * settings.accumulate, (step + 1) * settings.accumulate)
                shares = [(number, 0, source.batch(number), True) for number in numbers]
                counts = [task.counts(batch) for _, _, batch, _ in shares]
                totals = {part: sum(one[part] for one in counts) for part in task.weights}
                found, pieces = backprop.run(shares, totals, pieces)
                bad = ~found.loss.isfinite()
                loss = PendingMetrics(found, bad, Ranks()).read().loss
                # of the weights as they were before this step: what the rates so far have led to
                smoothed = _SMOOTHING * smoothed + (1 - _SMOOTHING) * loss
                shown = smoothed / (1 - _SMOOTHING ** (step + 1))
                if not math.isfinite(shown) or (losses and shown > _DIVERGED * min(losses)):
                    break
                rates.append(rate)
                losses.append(shown)
                set_learning_rate(optimisers, rate)
                update(optimisers, bad)
                backprop.zero_grad()
                if progress is not None:
                    progress(1)
    finally:
        with torch.no_grad():
            network.load_state_dict(before)
        network.zero_grad(set_to_none=True)
        network.eval()
    return RateSweep(rates=tuple(rates), losses=tuple(losses), suggestion=steepest(rates, losses))


def steepest(rates: list[float], losses: list[float]) -> float | None:
    """The rate at which the loss falls fastest, by the logarithm of the rate; None where it does not fall."""
    if len(losses) <= _SETTLED:
        return None
    slopes = np.gradient(np.array(losses), np.log(rates))
    slopes[:_SETTLED] = 0.0
    slopes[int(np.argmin(losses)) + 1 :] = 0.0  # past the lowest loss it only recovers
    place = int(np.argmin(slopes))
    return rates[place] if slopes[place] < 0 else None
