"""The step view of every decoder: candidates, what was chosen, and where it looked."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import clearhead as ch
from clearhead.data.batch import Batch
from clearhead.errors import BadInput
from clearhead.inside import decoding
from clearhead.inside.decoding import token_name
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
