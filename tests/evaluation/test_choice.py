import pytest

from clearhead.errors import BadInput
from clearhead.evaluation.choice import choice_accuracy, chosen


def test_questions_with_different_numbers_of_candidates():
    scores = [0.1, 0.9, 3.0, 2.0, 1.0, 5.0]
    assert chosen(scores, [2, 3, 1]).tolist() == [1, 0, 0]
    assert choice_accuracy([1, 2, 0], scores, [2, 3, 1]) == pytest.approx(2 / 3)


def test_the_first_of_equal_candidates_is_chosen():
    assert chosen([1, 1, 0, 2, 2], [2, 3]).tolist() == [0, 1]
    assert chosen([], []).tolist() == []


@pytest.mark.parametrize(
    ("gold", "scores", "choices", "message"),
    [
        ([0], [1, 2, 3], [2], "2 candidates together, but there are 3 scores"),
        ([0, 0], [1, 2], [2], "2 gold items and 1 questions"),
        ([2], [1, 2], [2], "right candidate is 2, but there are 2"),
        ([0, 0], [1], [1, 0], "there are 0"),
        ([0], [1, float("nan")], [2], "nan"),
        ([], [], [], "no gold items"),
    ],
)
def test_bad_input(gold, scores, choices, message):
    with pytest.raises(BadInput, match=message):
        choice_accuracy(gold, scores, choices)


def test_a_question_without_candidates():
    with pytest.raises(BadInput, match="0 candidates"):
        chosen([1.0], [1, 0])
