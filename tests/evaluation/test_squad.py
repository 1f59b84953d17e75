"""Expected values follow from the rules of evaluate-v1.1.py and evaluate-v2.0.py, worked out beside each case."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.examples import QuestionExample
from clearhead.errors import BadInput, NotFound
from clearhead.evaluation import squad as nbest
from clearhead.evaluation.squad import (
    ScoredText,
    exact_match,
    f1,
    f1_or_none,
    golds_of,
    normalise,
    read_nbest,
    read_no_answer,
    read_predictions,
    squad1,
    squad2,
    write_nbest,
    write_predictions,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Panthers'\tquarterback", "panthers quarterback"),
        ("a an the", ""),
        ("theatre, another", "theatre another"),  # articles are whole words
        ("U.S.A.", "usa"),  # punctuation goes first and leaves no space
        ("the-end", "theend"),  # so "the" is no word any more
        ("“the” end…", "“ ” end…"),  # only ASCII punctuation goes; an article within other quotes still does
        ("12–14\u00a0km", "12–14 km"),  # a no-break space is white space, an en dash is no punctuation
        ("ÉCOLE İ", "école i̇"),
        ("", ""),
    ],
)
def test_normalise(text, normal):
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "overlap", "overlap2"),
    [
        ("Denver Broncos", "the denver broncos!", 1, 1, 1),
        ("Denver Broncos", "Broncos Denver", 0, 1, 1),  # F1 does not see the order
        ("gold", "gold gold", 0, 2 / 3, 2 / 3),  # 1 shared; precision 1/2, recall 1
        ("New York City", "York", 0, 0.5, 0.5),  # precision 1, recall 1/3
        ("12–14 km", "12-14 km", 0, 0.5, 0.5),  # "12–14" is not "1214"; "km" is shared
        ("yes", "no", 0, 0, 0),
        ("the", "a", 1, 0, 1),  # both are empty: 1.1 finds no shared word, 2.0 agreement
        ("", "something", 0, 0, 0),
    ],
)
def test_one_answer(gold, predicted, exact, overlap, overlap2):
    assert exact_match(gold, predicted) == exact
    assert f1(gold, predicted) == pytest.approx(overlap)
    assert f1_or_none(gold, predicted) == pytest.approx(overlap2)


def test_squad1_takes_the_best_gold_for_each_metric():
    golds = {"q1": ["Santa Clara", "Levi's Stadium"], "q2": ["1989"], "q3": ["a cat", "the black cat sat"]}
    predicted = {"q1": "levis stadium", "q2": "in 1989", "q3": "black cat"}
    # q1 1 and 1; q2 0 and 2/3; q3 0 and max(2/3 against "cat", 4/5 against "black cat sat")
    assert squad1(golds, predicted) == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3 + 4 / 5) / 3})


GOLDS = {"a": ["blue"], "b": ["red wine", "wine"], "c": [], "d": []}
PREDICTED = {"a": "blue", "b": "red", "c": "", "d": "green"}


def test_squad2_without_probabilities():
    assert squad2(GOLDS, PREDICTED) == pytest.approx(
        {
            "exact": 50,  # a and c
            "f1": 100 * (1 + 2 / 3 + 1 + 0) / 4,
            "total": 4,
            "HasAns_exact": 50,
            "HasAns_f1": 100 * (1 + 2 / 3) / 2,
            "HasAns_total": 2,
            "NoAns_exact": 50,
            "NoAns_f1": 50,
            "NoAns_total": 2,
        }
    )


def test_squad2_threshold():
    odds = {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.9}
    metrics = squad2(GOLDS, PREDICTED, odds, threshold=0.2)
    # b and d abstain: b loses, d wins; c at the threshold itself does not abstain
    assert (metrics["exact"], metrics["HasAns_exact"], metrics["NoAns_exact"]) == (75, 50, 100)
    # all abstain: 2 right; + a: 3, at 0.1; + c: 3; + b: exact 3, f1 3 2/3, at 0.3; + d: one less
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (75, 0.1)
    assert metrics["best_f1"] == pytest.approx(100 * (3 + 2 / 3) / 4)
    assert metrics["best_f1_thresh"] == 0.3


def test_best_threshold_when_never_answering_is_best():
    metrics = squad2({"a": [], "b": ["x"]}, {"a": "y", "b": "z"}, {"a": 0.4, "b": 0.5})
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (50, 0.0)


def test_equal_probabilities_are_decided_together():
    # stopping between the two, as the official script may, would claim 100
    metrics = squad2({"a": ["x"], "b": []}, {"a": "x", "b": "y"}, {"a": 0.5, "b": 0.5})
    assert metrics["best_exact"] == 50


def test_an_answer_of_articles_is_none_but_its_question_has_one():
    metrics = squad2({"a": ["the"], "b": ["x"]}, {"a": "", "b": "x"})
    assert metrics["exact"] == metrics["HasAns_f1"] == 100
    assert "NoAns_exact" not in metrics


words = st.sampled_from(["the", "a", "red", "Red,", "wine", "blue", "é", "12–14", "", "!"])
answers = st.lists(words, max_size=4).map(" ".join)
rows = st.lists(
    st.tuples(st.lists(answers, max_size=3), answers, st.sampled_from([-1.5, 0.0, 0.1, 0.25, 0.5, 1.0])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(rows=rows, data=st.data())
def test_best_threshold_is_attained_never_beaten_and_order_does_not_matter(rows, data):
    golds = {str(i): gold for i, (gold, _, _) in enumerate(rows)}
    predicted = {str(i): text for i, (_, text, _) in enumerate(rows)}
    odds = {str(i): odd for i, (_, _, odd) in enumerate(rows)}
    metrics = squad2(golds, predicted, odds)
    for metric in ("exact", "f1"):
        at = {
            t: squad2(golds, predicted, odds, t)[metric] for t in (-2, *odds.values(), metrics[f"best_{metric}_thresh"])
        }
        assert metrics[f"best_{metric}"] == pytest.approx(max(at.values()))
        assert metrics[f"best_{metric}"] == pytest.approx(at[metrics[f"best_{metric}_thresh"]])
    assert 0 <= metrics["exact"] <= metrics["f1"] <= 100 + 1e-9
    order = data.draw(st.permutations(list(golds)))
    assert squad2({name: golds[name] for name in order}, predicted, odds) == metrics


def test_nbest():
    lists = {
        "q": [ScoredText("Paris", 3.0), ScoredText("", 2.0), ScoredText("in Paris", 1.0)],
        "r": [ScoredText("", 1.0)],
    }
    assert nbest.decide(lists) == ({"q": "Paris", "r": ""}, {"q": -1.0, "r": 0.0})
    golds = {"q": ["in Paris"], "r": []}
    assert nbest.oracle(golds, lists, 1)["exact"] == 50
    assert nbest.oracle(golds, lists, 3)["exact"] == 100
    with pytest.raises(BadInput, match="'q' has no empty candidate"):
        nbest.decide({"q": [ScoredText("x", 1.0)]})
    with pytest.raises(BadInput, match="n is 0"):
        nbest.oracle(golds, lists, 0)
    with pytest.raises(BadInput, match="'q' has no candidate"):
        nbest.oracle(golds, {"q": [], "r": []}, 1)


def test_files(tmp_path):
    (tmp_path / "p.json").write_text('{"1": "b", "2": ""}')
    assert read_predictions(tmp_path / "p.json") == {"1": "b", "2": ""}
    (tmp_path / "n.json").write_text('{"1": 0, "2": 0.5}')
    assert read_no_answer(tmp_path / "n.json") == {"1": 0.0, "2": 0.5}
    with pytest.raises(BadInput, match="gives a number for each"):
        read_no_answer(tmp_path / "p.json")
    with pytest.raises(BadInput, match="gives a text for each"):
        read_predictions(tmp_path / "n.json")
    (tmp_path / "bad.json").write_bytes(b"{\xff")
    with pytest.raises(BadInput, match=r"bad\.json is not UTF-8 text"):
        read_predictions(tmp_path / "bad.json")
    with pytest.raises(NotFound, match="There is no file"):
        read_predictions(tmp_path / "none.json")


def test_files_of_candidates(tmp_path):
    lists = {"q": [ScoredText("Paris", 3.0), ScoredText("", 2.0)], "é": []}
    write_nbest(tmp_path / "n.json", lists)
    assert read_nbest(tmp_path / "n.json") == lists
    theirs = {"q": [{"text": "Paris", "probability": 0.7, "start_logit": 1.0, "end_logit": 2.5}]}
    (tmp_path / "n.json").write_text(json.dumps(theirs))
    assert read_nbest(tmp_path / "n.json") == {"q": [ScoredText("Paris", 3.5)]}
    write_predictions(tmp_path / "p.json", {"é": "ü"})
    assert read_predictions(tmp_path / "p.json") == {"é": "ü"}
    with pytest.raises(BadInput, match="gives a list of candidates for each"):
        read_nbest(tmp_path / "p.json")
    (tmp_path / "n.json").write_text(json.dumps({"q": [{"text": "Paris", "start_logit": 1.0}]}))
    with pytest.raises(BadInput, match=r"question 'q' has the candidate .* give a text and a score"):
        read_nbest(tmp_path / "n.json")
    with pytest.raises(BadInput, match="cannot be written"):
        write_predictions(tmp_path / "p.json" / "below.json", {})


def test_candidates_are_scored_by_the_rules_of_their_data():
    lists = {"q": [ScoredText("", 4.0), ScoredText("Paris", 3.0)], "r": [ScoredText("Rome", 2.0), ScoredText("", 1.0)]}
    both, one = {"q": ["Paris"], "r": ["Rome"]}, {"q": ["Paris"], "r": []}
    assert nbest.predictions_of(both, lists) == {"q": "Paris", "r": "Rome"}
    assert nbest.score_nbest(both, lists) == squad1(both, nbest.predictions_of(both, lists))
    assert nbest.predictions_of(one, lists) == {"q": "", "r": "Rome"}
    metrics = nbest.score_nbest(one, lists)
    assert metrics["exact"] == squad2(one, nbest.predictions_of(one, lists))["exact"] == 0
    assert metrics["best_exact"] == 50
    with pytest.raises(BadInput, match="no list of candidates, the first is 'r'"):
        nbest.score_nbest(both, {"q": []})


def test_golds_of_examples():
    asked = [QuestionExample("x", "?", "a b", (("a", 0), ("b", 3))), QuestionExample("y", "?", "a", impossible=True)]
    assert golds_of(asked) == {"x": ["a", "b"], "y": []}
    with pytest.raises(BadInput, match="'z' has no answer to compare with"):
        golds_of([QuestionExample("z", "?", "a")])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: squad1({"a": ["x"], "b": ["y"]}, {"a": "x"}), "1 ids have no prediction, the first is 'b'"),
        (lambda: squad1({"a": []}, {"a": "x"}), "'a' has no accepted answer"),
        (lambda: squad1({}, {}), "no question to score"),
        (lambda: squad2({}, {}), "no question to score"),
        (lambda: squad2({"a": ["x"]}, {}), "no prediction"),
        (lambda: squad2({"a": ["x"]}, {"a": "x"}, {}), "no no-answer probability"),
        (lambda: squad2({"a": ["x"]}, {"a": "x"}, {"a": float("nan")}), "not a finite number"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()
