import pytest
import torch

import clearhead as ch
from clearhead.errors import BadInput
from pipelines.alike import alike
from pipelines.peers import LONG, SENTENCES, Peers, peers

LABELS = ("no", "maybe", "yes")
PAIR = {"text": SENTENCES[0], "text_pair": SENTENCES[1]}


@pytest.fixture(scope="module")
def pair() -> Peers:
    return peers("BertForSequenceClassification", LABELS, seed=1)


@pytest.mark.parametrize("given", [SENTENCES[0], SENTENCES, SENTENCES[:1], PAIR, [PAIR, PAIR], [[[*PAIR.values()]]]])
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_k": None}, {"top_k": 1}])
def test_same_as_transformers(pair, given, options):
    ours, theirs = ch.pipeline("text-classification", pair.folder), pair.pipeline("text-classification")
    assert alike(ours(given, **options), theirs(given, **options))


@pytest.mark.parametrize("given", [SENTENCES[0], SENTENCES])
@pytest.mark.parametrize("top_k", [1, None])
def test_an_option_of_the_pipeline_nests_as_theirs(pair, given, top_k):
    ours = ch.pipeline("sentiment-analysis", pair.folder, top_k=top_k)
    assert alike(ours(given), pair.pipeline("sentiment-analysis", top_k=top_k)(given))


@pytest.mark.parametrize("labels", [LABELS, ("only",)])
@pytest.mark.parametrize("problem", [None, "regression", "multi_label_classification"])
@pytest.mark.parametrize("function", [None, "sigmoid", "softmax", "none"])
def test_scores_are_what_the_checkpoint_or_the_call_says(labels, problem, function):
    pair = peers("BertForSequenceClassification", labels, problem, seed=1)
    options = {} if function is None else {"function_to_apply": function}
    ours, theirs = ch.pipeline("text-classification", pair.folder), pair.pipeline("text-classification")
    assert alike(ours(SENTENCES[:2], top_k=None, **options), theirs(SENTENCES[:2], top_k=None, **options))


def test_all_scores_in_the_checkpoints_order(pair):
    classify = ch.pipeline("text-classification", pair.folder, return_all_scores=True)
    ((*rows,),) = classify(SENTENCES[0])
    assert [row["label"] for row in rows] == list(LABELS)
    ranked = classify(SENTENCES[0], top_k=None)
    assert sorted(rows, key=lambda row: -row["score"]) == ranked
    assert classify([SENTENCES[0]]) == [rows]


def test_a_long_text_is_read_to_its_end(pair):
    classify = ch.pipeline("text-classification", pair.folder)
    found = classify(LONG, top_k=None, truncation=True, max_length=64)
    assert {row["label"]: row["score"] for row in found} == pytest.approx(pair.ours.classify(LONG).scores, abs=1e-6)


def test_labels_without_names_are_numbered(tmp_path):
    torch.manual_seed(0)
    tokenizer = ch.train_tokenizer(texts=SENTENCES, vocabulary=200, min_frequency=1)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = ch.BertConfig(vocab_size=tokenizer.vocabulary, **sizes)
    model = ch.Model.create(config, tokenizer, heads={"classes": 2})
    found = ch.pipeline("text-classification", model)("Be alert!", top_k=None)
    assert {row["label"] for row in found} == {"LABEL_0", "LABEL_1"}


def test_what_is_refused(pair):
    classify = ch.pipeline("text-classification", pair.folder)
    with pytest.raises(BadInput, match="function_to_apply='tanh' is not known; choose sigmoid, softmax, none"):
        classify("text", function_to_apply="tanh")
    with pytest.raises(BadInput, match=r'a pair as \{"text": …, "text_pair": …\}, not \[\'a\', \'b\'\]'):
        classify([["a", "b"]])
    with pytest.raises(BadInput, match="top_k=-1 must be 1 or more"):
        classify("text", top_k=-1)
