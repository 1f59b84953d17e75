"""The step view of every decoder: candidates, what was chosen, and where it looked."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import clearhead as ch
from clearhead.data.batch import Batch
from clearhead.errors import BadInput, WrongTask
from clearhead.inside import decoding
from clearhead.inside.decoding import TEMPERATURES, by_length, token_name
from pipelines.writers import TEXTS, gpt_folder, translator

SOURCED = ["transformer", "t5", "seq2seq-lstm-additive", "seq2seq-gru-dot"]


@pytest.mark.parametrize("kind", SOURCED)
@pytest.mark.parametrize("beams", [1, 3])
def test_the_way_of_the_best_text_is_in_the_tree(kind, beams):
    model = translator(kind)
    data = decoding(model, TEXTS[0], num_beams=beams, max_new_tokens=6).data
    assert data["read"] == [*data["read"][:-1], "</s>"]
    assert len(data["results"]) == data["beams"] == beams
    nodes, path = data["nodes"], data["path"]
    assert nodes[path[0]]["parent"] is None
    for before, after in pairwise(path):
        assert nodes[after]["parent"] == before
        assert [nodes[after]["token"], nodes[after]["chance"]] in nodes[before]["candidates"] or beams > 1
    best = model.generate(TEXTS[0], max_new_tokens=6, num_beams=beams)
    assert data["results"][0]["text"] == best.text
    for node in nodes:
        assert sum(share for _, share in node["candidates"]) <= 1.001
        for layer in node["attention"]:
            assert len(layer) == len(data["read"])
            assert sum(layer) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("beams", [1, 3])
def test_the_end_is_what_the_best_text_chose_last(beams):
    data = decoding(ch.load("builtin:translator"), "Je suis étudiant", num_beams=beams).data
    assert data["results"][0]["ended"]
    assert data["nodes"][data["path"][-1]]["chosen"][0] == "</s>"


def test_a_text_whose_language_is_not_known_is_told_the_tags(writers):
    with pytest.raises(BadInput, match=r"'42' cannot be told; begin the text with the tag .*: >>en<<, >>de<<"):
        decoding(ch.load("builtin:translator"), "42")
    assert decoding(ch.load("builtin:translator"), ">>de<< 42", max_new_tokens=2).data["read"][0] == ">>de<<"


def test_the_attention_of_a_recurrent_model_is_its_matrix():
    model = translator("seq2seq-lstm-additive")
    data = decoding(model, TEXTS[0], max_new_tokens=6).data
    (source,) = model.generator.ids([TEXTS[0]])
    target = list(model.generate(TEXTS[0], max_new_tokens=6).tokens)
    (weights,) = model.network.attention(replace(Batch.of([target]), source=Batch.of([source])))
    shown = torch.tensor([data["nodes"][i]["attention"][0] for i in data["path"]])[: len(target)]
    torch.testing.assert_close(shown, weights[: len(shown)], atol=1e-3, rtol=0)


def test_a_model_without_attention_shows_its_candidates_alone():
    data = decoding(translator("seq2seq-gru"), TEXTS[0], max_new_tokens=4).data
    assert all(node["attention"] == [] for node in data["nodes"])


def test_a_decoder_alone_looks_back_at_all_there_is():
    model = ch.load(gpt_folder())
    data = decoding(model, TEXTS[0], max_new_tokens=5, num_beams=2).data
    for node in data["nodes"]:
        depth, at = 0, node
        while at["parent"] is not None:
            depth, at = depth + 1, data["nodes"][at["parent"]]
        assert [len(layer) for layer in node["attention"]] == [len(data["read"]) + depth] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 9}, "num_beams=9 cannot be drawn"),
        ({"max_new_tokens": 0}, "max_new_tokens=0 cannot be shown"),
        ({"top_k": 0}, "top_k=0 candidates"),
    ],
)
def test_what_cannot_be_shown_is_refused(options, message):
    with pytest.raises(BadInput, match=message):
        decoding(translator(), TEXTS[0], **options)
    with pytest.raises(BadInput, match="this page shows at most 128"):
        decoding(translator(), TEXTS[0] * 20)


def test_rows_without_a_token_have_a_number():
    # a network's table is padded to a round number, and its spare rows may be among the candidates
    tokenizer = ch.load(gpt_folder()).tokenizer
    assert token_name(tokenizer, tokenizer.vocabulary + 7) == f"id {tokenizer.vocabulary + 7}"
    assert token_name(tokenizer, 0) == "<|endoftext|>"


@pytest.mark.parametrize("kind", ["transformer", "seq2seq-lstm-additive"])
def test_running_scores_end_in_the_scores_of_the_texts(kind):
    data = decoding(translator(kind), TEXTS[0], num_beams=3, max_new_tokens=6).data
    nodes = data["nodes"]
    for node in nodes:
        if node["parent"] is not None:
            before = nodes[node["parent"]]["score"]
            assert node["score"] == pytest.approx(
                before + math.log(node["chance"]), abs=0.3 if node["chance"] < 0.01 else 0.02
            )
    last, best = nodes[data["path"][-1]], data["results"][0]
    assert best["log_prob"] <= last["score"] + 1e-3  # the last token, or the end, is still to come


def test_greedy_is_found_in_the_tree_and_judged():
    model = translator()
    data = decoding(model, TEXTS[0], num_beams=3, max_new_tokens=6).data
    alone = decoding(model, TEXTS[0], max_new_tokens=6).data
    assert alone["greedy"] is None
    assert data["greedy"]["text"] == alone["results"][0]["text"]
    assert data["greedy"]["log_prob"] == pytest.approx(alone["results"][0]["log_prob"], abs=1e-3)
    written = [data["nodes"][i]["token"] for i in data["greedy"]["nodes"][1:]]
    assert written == [alone["nodes"][i]["token"] for i in alone["path"][1 : len(written) + 1]]


def test_a_temperature_counts_every_token_of_the_vocabulary():
    model = ch.load(gpt_folder())
    data = decoding(model, TEXTS[0], max_new_tokens=3).data
    (ids,) = model.generator.ids([TEXTS[0]])
    batch = Batch.of([ids])
    with torch.no_grad():
        logits = model.network("causal_lm", batch.ids, batch.layout)[-1]
    spread = data["spread"][0]
    for temperature in (0.5, 1.0, 2.0):
        expected = (logits / temperature).softmax(-1).sort(descending=True).values[: len(spread["log_probs"])]
        shift = spread["normalisers"][TEMPERATURES.index(temperature)]
        shown = (torch.tensor(spread["log_probs"]) / temperature - shift).exp()
        torch.testing.assert_close(shown, expected, atol=2e-4, rtol=1e-3)


def test_the_mean_of_the_heads_is_the_layers_attention():
    data = decoding(translator(), TEXTS[0], max_new_tokens=5).data
    for number, heads in zip(data["path"], data["heads"], strict=True):
        shown = torch.tensor(data["nodes"][number]["attention"])
        torch.testing.assert_close(torch.tensor(heads).mean(1), shown, atol=1.1e-3, rtol=0)


def test_another_model_writes_beside_it():
    recurrent = translator("seq2seq-lstm-additive")
    found = decoding(translator(), TEXTS[0], max_new_tokens=6, beside=recurrent).data["beside"]
    alone = decoding(recurrent, TEXTS[0], max_new_tokens=6).data
    assert found["text"] == alone["results"][0]["text"]
    assert found["attention"] == [alone["nodes"][i]["attention"][0] for i in alone["path"]][: len(found["written"])]
    assert found["bottleneck"] == []
    narrow = decoding(translator(), TEXTS[0], max_new_tokens=4, beside=translator("seq2seq-gru")).data["beside"]
    assert (narrow["attention"], len(narrow["bottleneck"])) == ([], 24)
    with pytest.raises(WrongTask, match="reads no source; give a model that translates"):
        decoding(translator(), TEXTS[0], beside=ch.load(gpt_folder()))


def test_quality_is_measured_by_length():
    pytest.importorskip("sacrebleu")
    model = ch.load("builtin:translator")
    sources = [
        "Ein Hund läuft.",
        "Das Kind schläft.",
        "Ich muss auf den Markt gehen.",
        "Zwei Männer sitzen auf einer Bank.",
    ]
    pairs = [(source, model.translate(source, num_beams=1).text) for source in sources]
    found = by_length([model], [*pairs[:3], (sources[3], "something else")])
    assert found["words"] == [[3, 3], [3, 3], [6, 6], [6, 6]]
    assert found["scores"][0]["chrf"][:3] == [100, 100, 100]
    assert found["scores"][0]["chrf"][3] < 50
    with pytest.raises(BadInput, match="3 pairs are too few"):
        by_length([model], pairs[:3])
