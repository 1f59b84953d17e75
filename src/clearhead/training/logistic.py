"""Logistic regression on fixed features, as scikit-learn defines it, solved by L-BFGS."""

# B examples · D features · L classes

import logging
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadInput, require

log = logging.getLogger(__name__)

_ITERATIONS = 2000
_GRADIENT = 1e-7  # of the mean loss of an example; below it nothing moves that a figure would show


@dataclass(frozen=True)
class LogisticRegression:
    """A linear map to classes; two classes share one row, which speaks for the second."""

    weight: Tensor  # (L, D), or (1, D) for two classes
    bias: Tensor  # (L,) or (1,)

    @classmethod
    def fit(cls, features: Tensor, classes: Tensor, count: int, *, strength: float = 1.0) -> Self:
        """Find the one best map from (B, D) to `count` classes (B,): the loss times `strength`, plus half of weight².

        The problem has one solution, so there is no seed; `strength` is scikit-learn's C.
        """
        require(strength > 0, f"strength must be positive, got {strength}")
        require(count >= 2, f"there are {count} classes; a choice needs at least 2", BadInput)
        x, rows = features.double(), 1 if count == 2 else count
        weight = torch.zeros(rows, x.shape[1], dtype=x.dtype, requires_grad=True)
        bias = torch.zeros(rows, dtype=x.dtype, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [weight, bias],
            max_iter=_ITERATIONS,
            max_eval=2 * _ITERATIONS,
            tolerance_grad=_GRADIENT,
            tolerance_change=0.0,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimiser.zero_grad()
            penalty = weight.square().sum() / (2 * strength * len(x))
            value = F.cross_entropy(_logits(x, weight, bias), classes) + penalty
            value.backward()
            return value

        with torch.enable_grad():
            optimiser.step(loss)
        left = max(float(part.grad.abs().max()) for part in (weight, bias) if part.grad is not None)
        if left > 100 * _GRADIENT:
            log.warning("logistic regression stopped early: gradient=%.1e iterations=%d", left, _ITERATIONS)
        return cls(weight.detach().to(features.dtype), bias.detach().to(features.dtype))

    def logits(self, features: Tensor) -> Tensor:
        """(B, D) -> (B, L)."""
        return _logits(features, self.weight, self.bias)


def _logits(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    found = F.linear(x, weight, bias)
    return F.pad(found, (1, 0)) if weight.shape[0] == 1 else found  # the first of two classes is the measure, 0
