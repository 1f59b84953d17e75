"""The five metrics of GLUE (Wang et al. 2018). Between 0 and 1, or -1 and 1."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, check_lengths, require

Values = Sequence[Any] | NDArray[Any]


def accuracy(gold: Values, predicted: Values) -> float:
    """The share of equal labels."""
    truth, guess = _labels(gold, predicted)
    return float((truth == guess).mean())


def f1(gold: Values, predicted: Values, positive: int | str = 1) -> float:
    """F1 of one label; 0 where it is neither there nor predicted."""
    truth, guess = (values == positive for values in _labels(gold, predicted))
    found = int(truth.sum() + guess.sum())
    return 2 * int((truth & guess).sum()) / found if found else 0.0


def matthews(gold: Values, predicted: Values) -> float:
    """Matthews' correlation for two or more labels (Gorodkin's R_K); 0 where one side has a single label."""
    truth, guess = _labels(gold, predicted)
    names, codes = np.unique(np.concatenate([truth, guess]), return_inverse=True)
    table = np.zeros((len(names), len(names)))
    np.add.at(table, (codes[: len(truth)], codes[len(truth) :]), 1)
    n, in_gold, in_guess = table.sum(), table.sum(1), table.sum(0)
    spread = (n**2 - in_gold @ in_gold) * (n**2 - in_guess @ in_guess)
    return float((np.trace(table) * n - in_gold @ in_guess) / np.sqrt(spread)) if spread else 0.0


def pearson(gold: Values, predicted: Values) -> float:
    """Linear correlation; nan where one side is constant, as scipy says."""
    x, y = _numbers(gold, predicted)
    if (x == x[0]).all() or (y == y[0]).all():
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1, 1))


def spearman(gold: Values, predicted: Values) -> float:
    """Correlation of ranks, equal values sharing their mean rank; nan where one side is constant."""
    x, y = _numbers(gold, predicted)
    return pearson(_ranks(x), _ranks(y))


def _labels(gold: Values, predicted: Values) -> tuple[NDArray[Any], NDArray[Any]]:
    check_lengths(gold, predicted)
    truth, guess = np.asarray(gold), np.asarray(predicted)
    message = f"Labels have the shapes {truth.shape} and {guess.shape}; give one label for each item, not scores."
    require(truth.ndim == guess.ndim == 1, message, BadInput)
    message = f"Gold labels such as {truth[0]!r} and predictions such as {guess[0]!r} differ in kind; give both alike."
    require((truth.dtype.kind in "US") == (guess.dtype.kind in "US"), message, BadInput)
    return truth, guess


def _numbers(gold: Values, predicted: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    check_lengths(gold, predicted)
    require(len(gold) > 1, "A correlation needs at least two items, there is 1.", BadInput)
    try:
        x, y = (np.asarray(values, dtype=np.float64).reshape(-1) for values in (gold, predicted))
    except (TypeError, ValueError) as error:
        raise BadInput(f"The scores are not numbers ({error}).") from None
    require(bool(np.isfinite(x).all() and np.isfinite(y).all()), "A score is nan or infinite; give numbers.", BadInput)
    return x, y


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
