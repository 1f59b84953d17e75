"""The expected calibration error, against sums by hand; the other scores of classes are tested with the tasks."""

import pytest

from clearhead.errors import BadInput
from clearhead.evaluation.classes import calibration_error


def test_the_distance_of_each_bin_counts_by_its_size():
    right = [True, True, False, True, False]
    scores = [0.95, 0.91, 0.99, 0.55, 0.52]
    # first bin: mean 0.95, two of three right; second: mean 0.535, one of two
    assert calibration_error(right, scores) == pytest.approx(100 * (3 * (0.95 - 2 / 3) + 2 * (0.535 - 0.5)) / 5)


def test_scores_that_mean_what_they_say_have_no_error():
    assert calibration_error([True] * 8 + [False] * 2, [0.8] * 10) == pytest.approx(0)
    assert calibration_error([True], [1.0]) == 0
    assert calibration_error([False], [1.0]) == 100


@pytest.mark.parametrize(
    ("right", "scores"), [([], []), ([True], [0.5] * 2), ([True], [1.5]), ([True], [float("nan")])]
)
def test_what_is_no_score_is_refused(right, scores):
    with pytest.raises(BadInput, match=r"scores|gold items"):
        calibration_error(right, scores)
