import pytest

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from pipelines.alike import alike
from pipelines.peers import LONG, SENTENCES, Peers, peers

NLI = ("contradiction", "neutral", "entailment")
TOPICS = ["animals", "money", "health"]


@pytest.fixture(scope="module", params=["Bert", "Roberta"])
def pair(request: pytest.FixtureRequest) -> Peers:
    return peers(f"{request.param}ForSequenceClassification", NLI, seed=4)


@pytest.mark.parametrize("given", [SENTENCES[0], SENTENCES[:2], SENTENCES[:1]])
@pytest.mark.parametrize(
    "options",
    [
        {"candidate_labels": TOPICS},
        {"candidate_labels": "animals, money,health"},
        {"candidate_labels": TOPICS, "multi_label": True, "hypothesis_template": "It is {}!"},
        {"candidate_labels": ["animals"]},
    ],
)
def test_same_as_transformers(pair, given, options):
    ours = ch.pipeline("zero-shot-classification", pair.folder)
    theirs = pair.pipeline("zero-shot-classification")
    assert alike(ours(given, **options), theirs(given, **options))


def test_labels_by_place_or_said_once(pair):
    ours = ch.pipeline("zero-shot-classification", pair.folder, candidate_labels=TOPICS)
    assert ours(SENTENCES[0]) == ours(SENTENCES[0], TOPICS)
    assert ours(LONG)["sequence"] == LONG
    with pytest.raises(BadInput, match="no candidate_labels given"):
        ch.pipeline("zero-shot-classification", pair.folder)(SENTENCES[0])
    other = peers("BertForSequenceClassification", ("no", "yes")).ours
    with pytest.raises(WrongTask, match="no label for entailment"):
        ch.pipeline("zero-shot-classification", other)(SENTENCES[0], TOPICS)
