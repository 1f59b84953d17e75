"""Multiple choice (SWAG, DREAM): the candidate with the highest score is chosen."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clearhead.errors import BadInput, require
from clearhead.evaluation.checks import same_length


def chosen(scores: ArrayLike, choices: Sequence[int]) -> NDArray[np.int64]:
    """Pick a candidate for each question, the first of equally good ones.

    scores: those of all candidates, one question after the other; choices: how many candidates each question has.
    """
    flat = np.asarray(scores, dtype=np.float64).reshape(-1)
    wrong = [count for count in choices if count < 1]
    require(not wrong, f"A question has {wrong[0] if wrong else 0} candidates; each needs at least one.", BadInput)
    require(
        sum(choices) == len(flat),
        f"The questions have {sum(choices)} candidates together, but there are {len(flat)} scores; give one for each.",
        BadInput,
    )
    require(not np.isnan(flat).any(), "A candidate's score is nan; give numbers.", BadInput)
    ends = np.cumsum(choices)[:-1]
    return np.array([part.argmax() for part in np.split(flat, ends)] if len(choices) else [], dtype=np.int64)


def choice_accuracy(gold: Sequence[int], scores: ArrayLike, choices: Sequence[int]) -> float:
    """The share of questions whose right candidate, counted from 0, is the one with the highest score."""
    same_length(gold, choices, "questions")
    for right, count in zip(gold, choices, strict=True):
        require(0 <= right < count, f"The right candidate is {right}, but there are {count}, counted from 0.", BadInput)
    return float((chosen(scores, choices) == np.asarray(gold)).mean())
