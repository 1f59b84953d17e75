from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput
from pipelines.peers import LONG, SENTENCES, peers
from text.strategies import any_strings

LABELS = ("negative", "neutral", "positive")
PAIRS = [(first[:30], second[:30]) for first, second in pairwise(SENTENCES)]


@pytest.mark.parametrize("problem", [None, "single_label_classification", "multi_label_classification", "regression"])
@pytest.mark.parametrize("family", ["Bert", "Roberta", "Albert"])
def test_same_as_transformers(family, problem):
    pair = peers(f"{family}ForSequenceClassification", LABELS, problem)
    theirs = pair.pipeline("text-classification")
    for text, found in zip(SENTENCES, pair.ours.classify(SENTENCES), strict=True):
        expected = theirs(text, top_k=None)
        assert list(found.scores) == [one["label"] for one in expected]
        assert list(found.scores.values()) == pytest.approx([one["score"] for one in expected], abs=1e-5)
        assert (found.label, found.score) == next(iter(found.scores.items()))
    for (first, second), found in zip(PAIRS, pair.ours.classify(PAIRS), strict=True):
        expected = theirs({"text": first, "text_pair": second}, top_k=None)
        assert found.scores == pytest.approx({one["label"]: one["score"] for one in expected}, abs=1e-5)


@pytest.fixture(scope="module")
def model() -> ch.Model:
    return peers("BertForSequenceClassification", LABELS).ours


def test_one_label_is_a_number():
    pair = peers("BertForSequenceClassification", ("similarity",), "regression")
    found = pair.ours.compare(*PAIRS[0])
    (expected,) = pair.pipeline("text-classification")({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]}, top_k=None)
    assert (found.label, found.score) == ("similarity", pytest.approx(expected["score"], abs=1e-5))


def test_one_gives_one_a_list_gives_a_list_a_stream_gives_a_stream(model):
    one = model.classify(SENTENCES[0])
    assert model.classify(SENTENCES[:1]) == [one]
    assert next(model.classify(iter(SENTENCES))).label == one.label
    assert model.classify([]) == []
    assert one.to_dict() == {"label": one.label, "score": one.score, "scores": one.scores}
    assert list(model.classify(SENTENCES[0], top_k=1).scores) == [one.label]


def test_compare_one_with_many_and_lists_with_lists(model):
    one = model.compare(SENTENCES[0], SENTENCES[1])
    assert model.compare(SENTENCES[0], SENTENCES[1:3])[0].scores == pytest.approx(one.scores, abs=1e-5)
    assert model.compare(SENTENCES[:2], SENTENCES[1])[0].scores == pytest.approx(one.scores, abs=1e-5)
    assert model.compare(SENTENCES[:2], SENTENCES[1:3])[0].scores == pytest.approx(one.scores, abs=1e-5)
    assert model.classify([(SENTENCES[0], SENTENCES[1])])[0].scores == pytest.approx(one.scores, abs=1e-5)
    with pytest.raises(BadInput, match="must be equally long"):
        model.compare(SENTENCES[:2], SENTENCES[:3])


def test_a_long_document_is_the_weighted_mean_of_its_windows(model):
    limit = model.encoder.max_length
    assert len(model.tokenizer.encode(LONG)) > 3 * limit
    total = torch.zeros(len(LABELS))
    for window in ch.windows(model.tokenizer, LONG, length=limit):
        with torch.no_grad():
            total += len(window.best) * model.network("classes", torch.tensor([window.encoding.ids]))[0]
    expected = (total / len(model.tokenizer.pieces(LONG))).softmax(-1).tolist()
    found = model.classify(LONG).scores
    assert [found[label] for label in LABELS] == pytest.approx(expected, abs=1e-5)


@given(
    st.lists(any_strings | st.tuples(any_strings, any_strings) | st.just(LONG), min_size=1, max_size=6), st.randoms()
)
@settings(max_examples=30, deadline=None)
def test_neighbours_and_order_change_nothing_and_no_text_is_too_strange(model, texts, random):
    texts = [one if isinstance(one, str) else (one[0][:20], one[1][:60]) for one in texts]
    together = model.classify(texts)
    order = list(range(len(texts)))
    random.shuffle(order)
    shuffled = model.classify([texts[i] for i in order])
    for i, found in zip(order, shuffled, strict=True):
        assert found.scores == pytest.approx(together[i].scores, abs=1e-5)
    assert model.classify(texts[:1])[0].scores == pytest.approx(together[0].scores, abs=1e-5)


@pytest.mark.parametrize("wrong", [("a", "b", "c"), ["a"]])
def test_what_is_neither_text_nor_pair_is_refused(model, wrong):
    with pytest.raises(BadInput, match="a text or a pair of texts"):
        model.classify([wrong])


def test_no_labels_at_all_is_no_use(model):
    with pytest.raises(BadInput, match="top_k=0"):
        model.classify("text", top_k=0)
