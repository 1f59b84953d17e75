from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from pipelines.peers import LONG, SENTENCES, Peers, peers
from text.strategies import any_strings

LABELS = ("negative", "neutral", "positive")
PAIRS = [(first[:30], second[:30]) for first, second in pairwise(SENTENCES)]


@pytest.mark.parametrize("problem", [None, "single_label_classification", "multi_label_classification", "regression"])
@pytest.mark.parametrize("family", ["Bert", "Roberta", "Albert", "MPNet", "DebertaV2"])
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


NLI = ("contradiction", "neutral", "entailment")
TOPICS = ["animals", "money", "health"]


@pytest.fixture(scope="module")
def pair() -> Peers:
    return peers("BertForSequenceClassification", NLI, seed=4)


def test_a_label_is_ranked_by_its_entailment(pair):
    found = pair.ours.zero_shot(SENTENCES[0], TOPICS)
    logits = {}
    classify = pair.pipeline("text-classification", top_k=None, function_to_apply="none")
    for topic in TOPICS:
        (rows,) = classify([{"text": SENTENCES[0], "text_pair": f"This text is about {topic}."}])
        logits[topic] = next(row["score"] for row in rows if row["label"] == "entailment")
    assert list(found.scores) == sorted(TOPICS, key=lambda topic: -logits[topic])
    assert sum(found.scores.values()) == pytest.approx(1)
    assert (found.label, found.score) == next(iter(found.scores.items()))


def test_several_labels_at_once_do_not_depend_on_one_another(pair):
    several = pair.ours.zero_shot(SENTENCES[0], TOPICS, multi_label=True)
    for topic in TOPICS:
        alone = pair.ours.zero_shot(SENTENCES[0], [topic])
        assert alone.score == pytest.approx(several.scores[topic], abs=1e-6)


@pytest.mark.parametrize(
    "labels", [NLI, ("ENTAILMENT", "neutral", "contradiction"), ("neutral", "entailment", "contradiction")]
)
def test_contradiction_is_found_by_its_name(labels):
    model = peers("BertForSequenceClassification", labels, seed=4).ours
    found = model.zero_shot(SENTENCES[0], ["animals"])
    scores = model.compare(SENTENCES[0], "This text is about animals.").scores
    entailment, contradiction = (
        next(scores[name] for name in labels if name.lower() == wanted) for wanted in ("entailment", "contradiction")
    )
    assert found.score == pytest.approx(entailment / (entailment + contradiction), abs=1e-5)


def test_checkpoints_of_two_labels():
    model = peers("BertForSequenceClassification", ("entailment", "not_entailment"), seed=4).ours
    scores = model.compare(SENTENCES[0], "This text is about animals.").scores
    assert model.zero_shot(SENTENCES[0], ["animals"]).score == pytest.approx(scores["entailment"], abs=1e-5)


def test_texts_come_in_any_number_and_length(pair):
    model, done = pair.ours, []
    single = model.zero_shot(LONG, TOPICS, hypothesis_template="It is {}!")
    many = model.zero_shot([SENTENCES[0], LONG], TOPICS, hypothesis_template="It is {}!", progress=done.append)
    assert sum(done) == 2
    assert many[1].scores == pytest.approx(single.scores, abs=1e-6)
    stream = model.zero_shot(iter([LONG]), TOPICS, hypothesis_template="It is {}!")
    assert next(stream).scores == pytest.approx(single.scores, abs=1e-6)
    assert model.zero_shot([], TOPICS) == []


def test_what_is_refused(pair):
    other = peers("BertForSequenceClassification", ("no", "yes")).ours
    with pytest.raises(WrongTask, match=r"no label for entailment: its labels are no, yes; .* trained on inference"):
        other.zero_shot("text", TOPICS)
    with pytest.raises(WrongTask, match="cannot classify"):
        peers("BertForQuestionAnswering", seed=3).ours.zero_shot("text", TOPICS)
    for template in ("This is sports.", "This is {", "This is {topic}."):
        with pytest.raises(BadInput, match=r"has no place for a label; write \{\} there"):
            pair.ours.zero_shot("text", TOPICS, hypothesis_template=template)
    for labels in ([], "animals"):
        with pytest.raises(BadInput, match="labels must be a list of at least one text"):
            pair.ours.zero_shot("text", labels)
