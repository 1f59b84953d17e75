import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from pipelines.alike import alike
from pipelines.peers import LONG, SENTENCES, Peers, peers

LABELS = ("no", "maybe", "yes")
NLI = ("contradiction", "neutral", "entailment")
TOPICS = ["animals", "money", "health"]
PAIR = {"text": SENTENCES[0], "text_pair": SENTENCES[1]}


@pytest.fixture(scope="module")
def classifier() -> Peers:
    return peers("BertForSequenceClassification", LABELS, seed=1)


@pytest.mark.parametrize("given", [SENTENCES[0], SENTENCES, SENTENCES[:1], PAIR, [PAIR, PAIR], [[[*PAIR.values()]]]])
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_k": None}, {"top_k": 1}])
def test_classes_as_transformers(classifier, given, options):
    ours, theirs = ch.pipeline("text-classification", classifier.folder), classifier.pipeline("text-classification")
    assert alike(ours(given, **options), theirs(given, **options))


@pytest.mark.parametrize("given", [SENTENCES[0], SENTENCES])
@pytest.mark.parametrize("top_k", [1, None])
def test_an_option_of_the_pipeline_nests_as_theirs(classifier, given, top_k):
    ours = ch.pipeline("sentiment-analysis", classifier.folder, top_k=top_k)
    assert alike(ours(given), classifier.pipeline("sentiment-analysis", top_k=top_k)(given))


@pytest.mark.parametrize("labels", [LABELS, ("only",)])
@pytest.mark.parametrize("problem", [None, "regression", "multi_label_classification"])
@pytest.mark.parametrize("function", [None, "sigmoid", "softmax", "none"])
def test_scores_are_what_the_checkpoint_or_the_call_says(labels, problem, function):
    pair = peers("BertForSequenceClassification", labels, problem, seed=1)
    options = {} if function is None else {"function_to_apply": function}
    ours, theirs = ch.pipeline("text-classification", pair.folder), pair.pipeline("text-classification")
    assert alike(ours(SENTENCES[:2], top_k=None, **options), theirs(SENTENCES[:2], top_k=None, **options))


def test_all_scores_in_the_checkpoints_order(classifier):
    classify = ch.pipeline("text-classification", classifier.folder, return_all_scores=True)
    ((*rows,),) = classify(SENTENCES[0])
    assert [row["label"] for row in rows] == list(LABELS)
    ranked = classify(SENTENCES[0], top_k=None)
    assert sorted(rows, key=lambda row: -row["score"]) == ranked
    assert classify([SENTENCES[0]]) == [rows]


def test_a_long_text_is_read_to_its_end(classifier):
    classify = ch.pipeline("text-classification", classifier.folder)
    found = classify(LONG, top_k=None, truncation=True, max_length=64)
    assert {row["label"]: row["score"] for row in found} == pytest.approx(
        classifier.ours.classify(LONG).scores, abs=1e-6
    )


def test_labels_without_names_are_numbered(tmp_path):
    torch.manual_seed(0)
    tokenizer = ch.train_tokenizer(texts=SENTENCES, vocabulary=200, min_frequency=1)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = ch.BertConfig(vocab_size=tokenizer.vocabulary, **sizes)
    model = ch.Model.create(config, tokenizer, heads={"classes": 2})
    found = ch.pipeline("text-classification", model)("Be alert!", top_k=None)
    assert {row["label"] for row in found} == {"LABEL_0", "LABEL_1"}


def test_what_is_refused_of_classes(classifier):
    classify = ch.pipeline("text-classification", classifier.folder)
    with pytest.raises(BadInput, match="function_to_apply='tanh' is not known; choose sigmoid, softmax, none"):
        classify("text", function_to_apply="tanh")
    with pytest.raises(BadInput, match=r'a pair as \{"text": …, "text_pair": …\}, not \[\'a\', \'b\'\]'):
        classify([["a", "b"]])
    with pytest.raises(BadInput, match="top_k=-1 must be 1 or more"):
        classify("text", top_k=-1)


@pytest.fixture(scope="module", params=["Bert", "Roberta"])
def inference(request: pytest.FixtureRequest) -> Peers:
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
def test_zero_shot_as_transformers(inference, given, options):
    ours = ch.pipeline("zero-shot-classification", inference.folder)
    theirs = inference.pipeline("zero-shot-classification")
    assert alike(ours(given, **options), theirs(given, **options))


def test_labels_by_place_or_said_once(inference):
    ours = ch.pipeline("zero-shot-classification", inference.folder, candidate_labels=TOPICS)
    assert ours(SENTENCES[0]) == ours(SENTENCES[0], TOPICS)
    assert ours(LONG)["sequence"] == LONG
    with pytest.raises(BadInput, match="no candidate_labels given"):
        ch.pipeline("zero-shot-classification", inference.folder)(SENTENCES[0])
    other = peers("BertForSequenceClassification", ("no", "yes")).ours
    with pytest.raises(WrongTask, match="no label for entailment"):
        ch.pipeline("zero-shot-classification", other)(SENTENCES[0], TOPICS)


@pytest.fixture(scope="module", params=["Bert", "Roberta", "Albert"])
def masked(request: pytest.FixtureRequest) -> Peers:
    return peers(f"{request.param}ForMaskedLM", seed=2)


@pytest.fixture(scope="module")
def bert_masked() -> Peers:
    return peers("BertForMaskedLM", seed=2)


def both(pair, text, **options):
    text = text if isinstance(text, list) else [text]
    given = [one.replace("[MASK]", pair.ours.tokenizer.special["mask"]) for one in text]
    given = given[0] if len(given) == 1 else given
    return ch.pipeline("fill-mask", pair.folder)(given, **options), pair.pipeline("fill-mask")(given, **options)


@pytest.mark.parametrize(
    "text", ["Wear a [MASK]!", "She went to [MASK] bank, [MASK] you.", ["a [MASK]", "The [MASK] is"]]
)
def test_masks_as_transformers(masked, text):
    assert alike(*both(masked, text))
    assert alike(*both(masked, text, top_k=2))


@pytest.mark.parametrize("targets", ["mask", ["mask", "bank", "river"], ["tiredriver", "mask", "mask"]])
def test_targets_are_words_of_the_vocabulary_or_first_pieces(masked, targets):
    assert alike(*both(masked, "Wear a [MASK]!", targets=targets))
    assert alike(*both(masked, "Wear a [MASK]!", targets=targets, top_k=1))


def test_a_list_of_one_text_has_its_result(bert_masked):
    fill = ch.pipeline("fill-mask", bert_masked.folder, top_k=1)
    assert alike(fill(["a [MASK]"]), bert_masked.pipeline("fill-mask", top_k=1)(["a [MASK]"]))
    assert [len(fill("a [MASK]")), len(fill("a [MASK]", top_k=3))] == [1, 3]
    assert len(fill("a [MASK]", top_k=None)) == 5


def test_masks_of_a_long_text_are_filled(bert_masked):
    fill = ch.pipeline("fill-mask", bert_masked.folder)
    found = fill(f"{LONG} Wear a [MASK]! {LONG}")
    assert found[0]["sequence"].count("wear a ") == 9
    assert len(found) == 5
    assert found[0]["token_str"] == bert_masked.ours.fill(f"{LONG} Wear a [MASK]! {LONG}", top_k=1).predictions[0].token


def test_what_is_refused_of_masks(bert_masked):
    fill = ch.pipeline("fill-mask", bert_masked.folder)
    with pytest.raises(BadInput, match=r"There is no mask in 'a mask'; write \[MASK\]"):
        fill("a mask")
    with pytest.raises(BadInput, match="top_k=0 must be 1 or more"):
        fill("a [MASK]", top_k=0)
    with pytest.raises(BadInput, match=r"targets=\['\\u200b'\] has no word"):
        fill("a [MASK]", targets=["\u200b"])
    with pytest.raises(WrongTask, match="cannot fill"):
        ch.pipeline("fill-mask", peers("BertForQuestionAnswering", seed=3).folder)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "Albert"])
def test_features_as_transformers(family):
    pair = peers(f"{family}Model")
    ours, theirs = ch.pipeline("feature-extraction", pair.folder), pair.pipeline("feature-extraction")
    for mine, expected in zip(ours(SENTENCES), theirs(SENTENCES), strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-5)
    found = ours(SENTENCES[0], return_tensors=True)
    torch.testing.assert_close(found, theirs(SENTENCES[0], return_tensors=True), atol=1e-5, rtol=0)


def test_every_token_of_a_long_text_has_its_features():
    pair = peers("BertModel")
    found = ch.pipeline("feature-extraction", pair.folder, return_tensors=True)(LONG)
    assert found.shape == (1, len(pair.ours.tokenizer.encode(LONG)), 32)
    first = ch.windows(pair.ours.tokenizer, LONG, length=pair.ours.encoder.max_length)[0]
    with torch.no_grad():
        expected = pair.ours.encoder(torch.tensor([first.encoding.ids]))[0]
    torch.testing.assert_close(found[0, : first.best.stop], expected[: first.best.stop], atol=1e-5, rtol=0)
