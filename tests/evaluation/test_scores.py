"""Per-class figures, confusion and averages are those of scikit-learn."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from clearhead.data.examples import PairExample, QuestionExample, TextExample, WordsExample
from clearhead.errors import BadInput
from clearhead.evaluation.classes import class_scores, confusion
from clearhead.evaluation.scores import score_answers, score_classes, score_labels, score_numbers, score_tags

NAMES = ("no", "perhaps", "yes")
rows = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), min_size=1)


def texts(labels):
    return [TextExample("a", label=label) for label in labels]


def said(predictions):
    return [{"predicted": one} for one in predictions]


def report(gold, guess, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metrics.classification_report(gold, guess, output_dict=True, zero_division=0, **how)


@settings(max_examples=60, deadline=None)
@given(rows)
def test_classes(pairs):
    gold, guess = map(list, zip(*pairs, strict=True))
    found = score_classes(texts(gold), said(guess), NAMES)
    theirs = report(gold, guess, labels=NAMES)
    for name in NAMES:
        for figure, value in found.classes[name].to_dict().items():
            wanted = theirs[name]["f1-score" if figure == "f1" else figure]
            assert value == pytest.approx(wanted if figure == "support" else 100 * wanted)
    assert found.average == "macro"
    assert found.metrics["f1"] == pytest.approx(100 * metrics.f1_score(gold, guess, average="macro", zero_division=0))
    assert found.confusion.to_dict()["counts"] == metrics.confusion_matrix(gold, guess, labels=NAMES).tolist()
    wrong = sum(one != other for one, other in pairs)
    assert sum(count for *_, count in found.confusion.mistakes()) == wrong


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES[1:]), st.sampled_from(NAMES[1:])), min_size=1))
def test_two_classes_name_the_positive_one(pairs):
    gold, guess = map(list, zip(*pairs, strict=True))
    found = score_classes(texts(gold), said(guess), NAMES[1:])
    assert (found.average, found.positive, found.name("f1")) == ("binary", "yes", "f1 (positive class yes)")
    theirs = metrics.f1_score(gold, guess, pos_label="yes", labels=NAMES[1:], zero_division=0)
    assert found.metrics["f1"] == pytest.approx(100 * theirs)
    assert found.to_dict()["positive"] == "yes"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES))), min_size=1))
def test_several_at_once(pairs):
    gold, guess = ([tuple(sorted(one)) for one in side] for side in zip(*pairs, strict=True))
    found = score_labels(texts(gold), said(map(list, guess)), NAMES)
    matrices = [[[name in one for name in NAMES] for one in side] for side in (gold, guess)]
    theirs = report(*matrices, target_names=NAMES)
    assert {name: one.f1 for name, one in found.classes.items()} == pytest.approx(
        {name: 100 * theirs[name]["f1-score"] for name in NAMES}
    )
    assert found.metrics["f1"] == pytest.approx(100 * theirs["micro avg"]["f1-score"])
    assert found.metrics["exact"] == pytest.approx(100 * metrics.accuracy_score(*matrices))
    assert found.average == "micro"


def sentence(words, tags):
    return WordsExample(tuple(words.split()), tuple(tags.split()))


@settings(max_examples=40, deadline=None)
@given(rows)
def test_plain_tags(pairs):
    gold, guess = map(list, zip(*pairs, strict=True))
    found = score_tags([WordsExample(tuple("w" * len(gold)), tuple(gold))], said([guess]), NAMES)
    assert found.metrics["accuracy"] == pytest.approx(100 * metrics.accuracy_score(gold, guess))
    assert found.metrics["f1"] == pytest.approx(100 * metrics.f1_score(gold, guess, average="macro", zero_division=0))
    assert list(found.metrics) == ["accuracy", "f1"]


def test_tags_of_entities_are_measured_in_the_scheme_of_the_data():
    data = [sentence("Ada Lovelace saw Rome", "B-PER I-PER O B-LOC")]
    for tags in ("B-PER I-PER O B-LOC", "B-PER E-PER O S-LOC", "PER PER O LOC"):
        found = score_tags(data, said([tags.split()]))
        assert (found.metrics["f1"], found.metrics["accuracy"], found.average) == (100, 100, "micro")
    assert {name: score.gold for name, score in found.classes.items()} == {"LOC": 1, "PER": 1}
    told = [sentence("Ada Lovelace saw Rome", "B-PER E-PER O S-LOC")]
    found = score_tags(told, said([["B-PER", "I-PER", "O", "B-LOC"]]))
    assert (found.metrics["f1"], found.metrics["accuracy"]) == (100, 100)
    bare = [sentence("Ada Lovelace saw Rome", "PER PER O LOC")]
    assert score_tags(bare, said([["B-PER", "I-PER", "O", "B-LOC"]])).metrics["accuracy"] == 100
    # where nothing is an entity, the model says what is measured
    nothing = score_tags([sentence("so it was", "O O O")], said([["O", "O", "B-PER"]]), ("O", "B-PER", "I-PER"))
    assert nothing.metrics["f1"] == 0
    assert "precision" in nothing.metrics


def test_a_constant_side_has_no_correlation():
    pairs = [PairExample("a", "b", 0.5), PairExample("a", "c", 0.5)]
    found = score_numbers(pairs, said([0.1, 0.2]))
    assert found.metrics["pearson"] != found.metrics["pearson"]


@pytest.mark.parametrize(
    ("score", "examples", "predictions", "message"),
    [
        (score_classes, texts(["a", "b"]), ["a"], "There are 2 gold items and 1 predictions"),
        (score_classes, texts(["a", "b"]), ["a", 1], "prediction 2 is 1, which is no str"),
        (
            score_classes,
            texts(["0", "1"]),
            ["no", "yes"],
            r"no label of the data \(such as 0, 1\) is predicted, only oth",
        ),
        (score_classes, [TextExample("a", where="x.csv, line 2")], ["a"], "x.csv, line 2 has no right answer"),
        (score_numbers, texts([1.0, 2.0]), [1.0, "high"], "prediction 2 is 'high', which is no float"),
        (score_tags, [sentence("a b", "O O")], [["O"]], "has 2 words; give as many tags"),
        (score_answers, [QuestionExample("1", "?", "c", (("c", 0),))], [None], "prediction 1 is None"),
    ],
)
def test_predictions_that_do_not_fit(score, examples, predictions, message):
    with pytest.raises(BadInput, match=message):
        score(examples, said(predictions))


def test_counts_of_nothing():
    scores = class_scores([["a"]], [["b"]], ["a", "b", "c"])
    assert [score.f1 for score in scores.values()] == [0, 0, 0]
    assert confusion(["a"], ["b"], ["a", "b"]).mistakes() == [("a", "b", 1)]
