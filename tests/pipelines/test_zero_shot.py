import pytest

from clearhead.errors import BadInput, WrongTask
from pipelines.peers import LONG, SENTENCES, Peers, peers

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
