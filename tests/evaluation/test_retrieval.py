import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from clearhead.errors import BadInput
from clearhead.evaluation.retrieval import average_precision, ndcg, precision, ranked, recall, reciprocal_rank

JUDGED = {"q": {"a": 2, "b": 0, "c": 1, "z": 1}}
RUN = {"q": {"b": 9.0, "c": 8.0, "x": 7.0, "a": 6.0}}  # ranks: b, c, x, a; z was not found


def test_one_query_by_hand():
    assert reciprocal_rank(JUDGED, RUN) == 1 / 2
    assert average_precision(JUDGED, RUN) == pytest.approx((1 / 2 + 2 / 4) / 3)  # z adds nothing to the sum
    assert recall(JUDGED, RUN, 2) == pytest.approx(1 / 3)
    assert precision(JUDGED, RUN, 2) == 1 / 2
    assert precision(JUDGED, RUN, 10) == 2 / 10  # over k, though 4 were found
    gained = 1 / math.log2(3) + 2 / math.log2(5)
    best = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(JUDGED, RUN, 4) == pytest.approx(gained / best)
    assert ndcg(JUDGED, RUN, 2) == pytest.approx((1 / math.log2(3)) / (2 + 1 / math.log2(3)))


def test_ties_go_to_the_larger_name_as_in_trec_eval():
    assert ranked({"d1": 1.0, "d3": 1.0, "d2": 2.0}) == ["d2", "d3", "d1"]
    assert reciprocal_rank({"q": {"d1": 1}}, {"q": {"d1": 1.0, "d3": 1.0}}) == 1 / 2


def test_mean_over_judged_queries():
    judged = {"p": {"a": 1}, "none": {"a": 0}, "empty": {"a": 1}}
    run = {"p": {"a": 1.0}, "none": {"a": 1.0}, "empty": {}, "unjudged": {"a": 1.0}}
    for figure in (reciprocal_rank(judged, run), average_precision(judged, run), ndcg(judged, run, 3)):
        assert figure == pytest.approx(1 / 3)
    # grades below 0 gain nothing
    assert ndcg({"q": {"a": -1, "b": 1}}, {"q": {"a": 2.0, "b": 1.0}}, 5) == pytest.approx(1 / math.log2(3))


grades = st.lists(st.integers(0, 3), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(grades=grades, k=st.integers(1, 15), data=st.data())
def test_same_as_scikit_learn_without_ties(grades, k, data):
    scores = data.draw(st.permutations(range(len(grades))))
    judged = {"q": {str(i): grade for i, grade in enumerate(grades)}}
    run = {"q": {str(i): float(score) for i, score in enumerate(scores)}}
    if any(grades):
        assert ndcg(judged, run, k) == pytest.approx(ndcg_score([grades], [scores], k=k))
        relevant = np.array(grades) > 0
        assert average_precision(judged, run) == pytest.approx(average_precision_score(relevant, scores))


@settings(max_examples=60, deadline=None)
@given(grades=grades, k=st.integers(1, 15), data=st.data())
def test_order_of_rows_does_not_matter_and_all_is_bounded(grades, k, data):
    items = [(str(i), data.draw(st.sampled_from([0.0, 0.5, 1.0]))) for i in range(len(grades))]
    judged = {"q": {str(i): grade for i, grade in enumerate(grades)}}
    for metric in (
        reciprocal_rank,
        average_precision,
        *(lambda j, r, m=m: m(j, r, k) for m in (ndcg, recall, precision)),
    ):
        figure = metric(judged, {"q": dict(items)})
        assert 0 <= figure <= 1 + 1e-12
        assert figure == metric(judged, {"q": dict(reversed(items))})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reciprocal_rank({}, {}), "no judged query"),
        (lambda: average_precision(JUDGED, {}), "no ranking, the first is 'q'"),
        (lambda: ndcg(JUDGED, RUN, 0), "k is 0"),
        (lambda: recall(JUDGED, RUN, -1), "k is -1"),
        (lambda: precision(JUDGED, {"q": {"a": math.nan}}, 1), "'a' is nan"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()
