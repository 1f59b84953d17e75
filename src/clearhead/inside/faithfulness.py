"""Which attribution to believe: deletion curves of all methods, and the page that shows why a model answers so."""

# T tokens · n points of a curve

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, keywords, require
from clearhead.inside.attribution import METHODS, Target, Use, target_of
from clearhead.inside.page import View, rounded
from clearhead.pipelines.model import Model

SCRIPTS = ("shared/svg.js", "chart.js", "main.js")
POINTS = 10  # of a curve, beside its first; texts of fewer tokens have one for each
SHUFFLES = 5
TIE = 0.005  # of two areas: too little to prefer one method


@keywords
def why(model: Model, text: str, pair: str | None = None, *, use: Use | None = None, target: str | None = None) -> View:
    """Show which tokens an answer came from: a class, the answer to a question (the pair is its context), or a mask.

    Or whether the pair follows the text. Without `use`, the first of these that the model can do; `target` is a label,
    a token, words of the context or a verdict to be explained in the place of the model's own choice.
    """
    explained = target_of(model, text, pair, use=use, answer=target)
    require(bool(explained.maskable), "the text is nothing but special tokens; give some words", BadInput)
    scores = {name: method(explained) for name, method in METHODS.items()}
    curves = {name: deletion(explained, values) for name, values in scores.items()}
    random = random_deletion(explained)
    best = min(curves, key=lambda name: curves[name].area)
    beats_random = curves[best].area < random.area
    near = [name for name in METHODS if name != best and curves[name].area < min(curves[best].area + TIE, random.area)]
    data = {
        "use": explained.use,
        "answer": explained.answer,
        "probability": round(random.probabilities[0], 4),
        "stated": None if explained.stated is None else round(explained.stated, 4),
        "tokens": explained.encoding.tokens,
        "hidable": explained.maskable,
        "methods": {name: {"scores": rounded(scores[name]), **curves[name].to_dict()} for name in METHODS},
        "random": random.to_dict(),
        "faithful": best if beats_random else None,
        "as_faithful": near if beats_random else [],
        "note": "Attention alone is no explanation: it says where the model looks, not what the answer depends on.",
    }
    return View.of("why", "Why this answer", SCRIPTS, data)


@dataclass(frozen=True)
class Curve:
    """The answer's probability when these shares of the tokens are masked."""

    shares: list[float]
    probabilities: list[float]

    @property
    def area(self) -> float:
        """The mean probability along the curve: small when the answer fades early."""
        return float(torch.trapezoid(torch.tensor(self.probabilities), torch.tensor(self.shares)))

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, rounded."""
        shares, curve = ([round(value, 4) for value in values] for values in (self.shares, self.probabilities))
        return {"shares": shares, "curve": curve, "area": round(self.area, 4)}


def deletion(target: Target, scores: Tensor) -> Curve:
    """Mask the tokens with the highest scores (T,) first; of equal ones, the earlier."""
    order = sorted(target.maskable, key=lambda position: -float(scores[position]))
    return _curves(target, [order])[0]


def random_deletion(target: Target) -> Curve:
    """The mean over random orders, always the same ones: what a method has to beat."""
    rng = torch.Generator().manual_seed(0)
    count = len(target.maskable)
    orders = [[target.maskable[i] for i in torch.randperm(count, generator=rng)] for _ in range(SHUFFLES)]
    curves = _curves(target, orders)
    mean = torch.tensor([curve.probabilities for curve in curves]).mean(0)
    return Curve(curves[0].shares, mean.tolist())


def _curves(target: Target, orders: Sequence[Sequence[int]]) -> list[Curve]:
    count = len(target.maskable)
    points = min(count, POINTS)
    counts = [round(count * point / points) for point in range(points + 1)]
    rows = [target.masked(order[:masked]) for order in orders for masked in counts]
    _, probabilities = target.scores(torch.stack(rows))
    shares = [masked / count for masked in counts]
    return [Curve(shares, part.tolist()) for part in probabilities.split(len(counts))]
