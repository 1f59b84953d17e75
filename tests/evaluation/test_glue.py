"""The same numbers as scikit-learn and scipy."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from clearhead.errors import BadInput
from clearhead.evaluation.glue import accuracy, f1, matthews, pearson, spearman

binary = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1)
several = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1)
number = st.integers(-5, 5) | st.floats(-100, 100).map(lambda x: round(x, 3))
numbers = st.lists(st.tuples(number, number), min_size=2)


@settings(max_examples=60, deadline=None)
@given(binary)
def test_two_labels(rows):
    gold, guess = map(list, zip(*rows, strict=True))
    assert accuracy(gold, guess) == pytest.approx(metrics.accuracy_score(gold, guess))
    assert f1(gold, guess) == pytest.approx(metrics.f1_score(gold, guess, zero_division=0))
    if len({*gold, *guess}) > 1:  # scikit-learn warns about a table of one label
        assert matthews(gold, guess) == pytest.approx(metrics.matthews_corrcoef(gold, guess))


@settings(max_examples=60, deadline=None)
@given(several)
def test_several_labels(rows):
    gold, guess = map(list, zip(*rows, strict=True))
    assume(len({*gold, *guess}) > 1)
    assert accuracy(gold, guess) == pytest.approx(metrics.accuracy_score(gold, guess))
    assert matthews(gold, guess) == pytest.approx(metrics.matthews_corrcoef(gold, guess))
    assert f1(gold, guess, positive="a") == pytest.approx(
        metrics.f1_score([x == "a" for x in gold], [x == "a" for x in guess], zero_division=0)
    )


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_correlations(rows):
    gold, guess = map(list, zip(*rows, strict=True))
    if len(set(gold)) == 1 or len(set(guess)) == 1:
        assert math.isnan(pearson(gold, guess))
        assert math.isnan(spearman(gold, guess))
        return
    assert spearman(gold, guess) == pytest.approx(stats.spearmanr(gold, guess).statistic, abs=1e-9)
    assert pearson(gold, guess) == pytest.approx(stats.pearsonr(gold, guess).statistic, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(rows=numbers, data=st.data())
def test_order_of_rows_does_not_matter(rows, data):
    shuffled = data.draw(st.permutations(rows))
    for metric in (accuracy, f1, matthews, pearson, spearman):
        here, there = (metric(*map(list, zip(*order, strict=True))) for order in (rows, shuffled))
        assert here == pytest.approx(there, abs=1e-9, nan_ok=True)


def test_one_label_says_nothing_of_a_correlation():
    assert matthews([1, 1], [1, 1]) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy([1], [1, 2]), "1 gold items and 2 predictions"),
        (lambda: f1([], []), "no gold items"),
        (lambda: accuracy([1, 2], [[0.1, 0.9], [0.3, 0.7]]), "not scores"),
        (lambda: accuracy(["a"], [1]), "differ in kind"),
        (lambda: pearson([1], [1]), "at least two"),
        (lambda: spearman([1, 2], [1, float("nan")]), "nan or infinite"),
        (lambda: pearson(["a", "b"], [1, 2]), "not numbers"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()
