"""Compare nested results: the same keys, types, texts and whole numbers, and scores to 1e-5."""

from typing import Any

import numpy as np
import pytest


def alike(ours: Any, theirs: Any) -> bool:
    """Their numbers may be numpy's; ours are always Python's own."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        return all(alike(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        assert type(ours) is list
        assert len(ours) == len(theirs)
        return all(alike(*pair) for pair in zip(ours, theirs, strict=True))
    if isinstance(theirs, float | np.floating):
        assert type(ours) is float
        assert ours == pytest.approx(float(theirs), abs=1e-5)
        return True
    assert type(ours) is type(theirs)
    assert ours == theirs
    return True
