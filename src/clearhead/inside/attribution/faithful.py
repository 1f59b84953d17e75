"""Which method to believe here: hide the tokens it calls important first, and see how fast the answer fades."""

# T tokens · n points of a curve

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.inside.attribution.target import Target

POINTS = 20  # of a curve; short texts have one for each token
SHUFFLES = 5


@dataclass(frozen=True)
class Curve:
    """The answer's probability when these shares of the tokens are hidden; `area` is the mean height."""

    shares: list[float]
    probabilities: list[float]

    @property
    def area(self) -> float:
        """The mean probability along the curve: small when the answer fades early."""
        return float(torch.trapezoid(torch.tensor(self.probabilities), torch.tensor(self.shares)))


def deletion(target: Target, scores: Tensor) -> Curve:
    """Hide the tokens with the highest scores (T,) first; of equal ones, the earlier."""
    order = sorted(target.hidable, key=lambda position: -float(scores[position]))
    return _curves(target, [order])[0]


def random_deletion(target: Target) -> Curve:
    """The mean over orders drawn by chance, always the same ones: what a method has to beat."""
    rng = torch.Generator().manual_seed(0)
    count = len(target.hidable)
    orders = [[target.hidable[i] for i in torch.randperm(count, generator=rng)] for _ in range(SHUFFLES)]
    curves = _curves(target, orders)
    mean = torch.tensor([curve.probabilities for curve in curves]).mean(0)
    return Curve(curves[0].shares, mean.tolist())


def _curves(target: Target, orders: Sequence[Sequence[int]]) -> list[Curve]:
    count = len(target.hidable)
    points = min(count, POINTS)
    counts = [round(count * point / points) for point in range(points + 1)] if points else [0]
    rows = [target.hidden(order[:hidden]) for order in orders for hidden in counts]
    _, probabilities = target.scores(torch.stack(rows))
    shares = [hidden / max(1, count) for hidden in counts]
    return [Curve(shares, part.tolist()) for part in probabilities.split(len(counts))]
