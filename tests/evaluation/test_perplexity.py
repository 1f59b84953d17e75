import math

import pytest

from clearhead.errors import BadInput
from clearhead.evaluation.perplexity import perplexity


def test_guessing_among_v_words_has_perplexity_v():
    assert perplexity([10 * math.log(50), 3 * math.log(50)], [10, 3]) == pytest.approx(50)


def test_sums_before_division():
    # 1 token of loss 4 and 3 tokens of loss 0: mean 1, not the mean 2 of the batches
    assert perplexity([4.0, 0.0], [1, 3]) == pytest.approx(math.e)


def test_too_large_for_a_float():
    assert perplexity([1000.0], [1]) == math.inf


@pytest.mark.parametrize(
    ("losses", "counts", "message"),
    [
        ([1.0], [1, 2], "1 gold items and 2 counts"),
        ([], [], "no gold items"),
        ([0.0], [0], "No token is to be guessed: the counts add up to 0 tokens; give longer texts"),
        ([math.nan], [1], "add up to nan"),
    ],
)
def test_bad_input(losses, counts, message):
    with pytest.raises(BadInput, match=message):
        perplexity(losses, counts)
