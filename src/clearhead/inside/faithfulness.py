"""Which attribution to believe: hide the tokens it ranks first, and see how fast the answer fades."""

# T tokens · n points of a curve

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, WrongTask, require
from clearhead.inside.attribution import METHODS, Target, Use, class_target, span_target, token_target
from clearhead.inside.page import View, rounded
from clearhead.pipelines.model import Model, Skilled

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


SCRIPTS = ("shared/svg.js", "chart.js", "main.js")
TIE = 0.005  # of two areas: too little to prefer one method
_HEADS: dict[str, Use] = {"classes": "classify", "span": "answer", "masked_lm": "fill"}


def why(model: Model, text: str, pair: str | None = None, *, use: Use | None = None, target: str | None = None) -> View:
    """Show which tokens an answer came from: a class, the answer to a question (the pair is its context), or a mask.

    Without `use`, the first of these that the model can do; `target` is a label, a token or words of the context
    to be explained in the place of the model's own choice.
    """
    explained = target_of(model, text, pair, use=use, target=target)
    require(bool(explained.hidable), "the text is nothing but special tokens; give some words", BadInput)
    scores = {name: method(explained) for name, method in METHODS.items()}
    curves = {name: deletion(explained, values) for name, values in scores.items()}
    chance = random_deletion(explained)
    best = min(curves, key=lambda name: curves[name].area)
    beats_chance = curves[best].area < chance.area
    near = [name for name in METHODS if name != best and curves[name].area < min(curves[best].area + TIE, chance.area)]
    data = {
        "use": explained.use,
        "answer": explained.answer,
        "probability": round(chance.probabilities[0], 4),
        "tokens": explained.tokens,
        "hidable": explained.hidable,
        "methods": {name: {"scores": rounded(scores[name]), **_drawn(curves[name])} for name in METHODS},
        "random": _drawn(chance),
        "faithful": best if beats_chance else None,
        "as_faithful": near if beats_chance else [],
        "note": "Attention alone is no explanation: it says where the model looks, not what the answer depends on.",
    }
    return View.of("why", "Why this answer", SCRIPTS, data)


def target_of(model: Model, text: str, pair: str | None, *, use: Use | None, target: str | None) -> Target:
    """The answer that is to be explained."""
    if isinstance(model, Skilled):
        model, use = _with_skill(model, text, pair, use)
    # networks from before the Transformer have no heads
    able = [name for head, name in _HEADS.items() if head in getattr(model.network, "heads", ())]
    require(
        bool(able),
        "this model has no answer to explain: it cannot classify, answer or fill; how one writes is shown by: "
        "look decoding",
        WrongTask,
    )
    chosen = use or able[0]
    if chosen == "classify":
        return class_target(model, text, pair, target)
    if chosen == "answer":
        require(pair is not None, "an answer needs a context; give it as the second text", BadInput)
        return span_target(model, text, pair or "", target)
    require(chosen == "fill", f"use={chosen!r} is not known; choose {', '.join(_HEADS.values())}", BadInput)
    require(pair is None, "a text with a mask is explained by itself; leave out the second text", BadInput)
    return token_target(model, text, target)


def _with_skill(model: Skilled, text: str, pair: str | None, use: Use | None) -> tuple[Model, Use]:
    """The model with the skill for the use; unasked, a text with a mask is filled and any other is classified."""
    chosen = use or ("fill" if model.tokenizer.special.get("mask", "[MASK]") in text else "classify")
    return model.able("compare" if chosen == "classify" and pair is not None else chosen), chosen


def _drawn(curve: Curve) -> dict[str, Any]:
    shares = [round(share, 4) for share in curve.shares]
    return {"shares": shares, "curve": [round(value, 4) for value in curve.probabilities], "area": round(curve.area, 4)}
