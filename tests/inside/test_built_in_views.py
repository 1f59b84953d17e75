"""The views of the built-in model, as it comes: what they show is what it computes."""

import math

import pytest
import torch
from torch.testing import assert_close

import clearhead as ch
from clearhead.inside import senses_of, summed_input, through_layers, why
from clearhead.studio.pages import ENTRIES
from lecture_examples import ANIMAL, BERT_LARGE, PAIRS, SPAM

METHODS = ["attention", "attention rollout", "gradient × input", "integrated gradients", "leave one out"]


@pytest.fixture(scope="module")
def model():
    return ch.load()


def turned(x, theta):
    """Rotary positions by complex numbers: feature j and its partner in the other half are one of them. (T, K)."""
    half = x.shape[-1] // 2
    angles = torch.arange(len(x))[:, None] * theta ** (-torch.arange(half) / half)
    spun = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([spun.real, spun.imag], -1)


def test_a_step_follows_from_the_weights_by_hand(model):
    traced = ch.trace(model, ANIMAL)
    best = traced.links("it", "animal")[0]
    data = traced.step("it", best.layer, best.head).data
    block = model.encoder.blocks[best.layer]
    width = model.config.hidden_size // model.config.num_attention_heads
    with torch.no_grad():
        q, k, v = block.attention.qkv(block.norm_1(traced.layers[best.layer].before)).chunk(3, -1)
    own = slice(best.head * width, (best.head + 1) * width)
    q, k = (turned(x[:, own], model.config.global_rope_theta) for x in (q, k))
    scaled = q @ k.T / math.sqrt(width)
    assert data["turned"] is True
    for name, expected in {"q": q, "k": k, "v": v[:, own], "scaled": scaled}.items():
        assert_close(torch.tensor(data[name]), expected, atol=0.002, rtol=0)
    assert_close(torch.tensor(data["weights"]), scaled.softmax(-1), atol=1e-4, rtol=0)
    assert data["weights"][10][2] == pytest.approx(best.weight, abs=1e-4)


def test_the_studio_opens_its_example_where_it_looks_at_the_animal(model):
    (example,) = ENTRIES["/look/step"].examples
    best = ch.trace(model, ANIMAL).links("it", "animal")[0]
    assert tuple(example["values"][name] for name in ("layer", "head")) == (best.layer, best.head)


def test_a_layer_is_two_additions_to_the_stream(model):
    for layer in ch.trace(model, ANIMAL).layers:
        assert_close(layer.middle, layer.before + layer.attention_output, atol=1e-3, rtol=1e-4)
        assert_close(layer.hidden, layer.middle + layer.feedforward_output, atol=1e-3, rtol=1e-4)


def test_the_input_is_the_token_alone(model):
    vectors = summed_input(model, "Be alert!", "BERT will hurt!").data["vectors"]
    assert list(vectors) == ["token", "normalised"]
    found = ch.trace(model, "Be alert!", "BERT will hurt!")
    assert_close(torch.tensor(vectors["normalised"]), found.embeddings[:, :64], atol=0.001, rtol=0)


def test_the_last_layer_says_what_fill_says(model):
    text = "He sat on the [MASK] of the river"
    data = through_layers(model, text).data
    assert data["stream"] is True
    best = model.fill(text, top_k=5).predictions
    shown = data["said"][-1][data["tokens"].index("[MASK]")]
    assert shown == [[one.token, pytest.approx(one.score, abs=1e-3)] for one in best]


def test_a_word_is_the_same_everywhere_before_any_attention(model):
    data = senses_of(model, "bank", ["a bank", "the bank of a river", "no bank lends"]).data
    assert data["shares"][0] == [0, 0]
    assert {value for row in data["cosines"][0] for value in row} == {1.0}
    both = senses_of(model, "bank", ["a bank", "two banks"]).data
    assert both["cosines"][0][0][1] < 1


@pytest.mark.parametrize("use", ["sentiment", "spam", "inference", "answer", "fill"])
def test_every_answer_is_the_models_own_and_explained_by_five_methods(model, use):
    match use:
        case "sentiment":
            text = "A warm, funny and clever film."
            data, best = why(model, text).data, model.classify(text)
        case "spam":
            data, best = why(model.skill("spam"), SPAM).data, model.classify(SPAM, skill="spam")
        case "inference":
            data, best = why(model, *PAIRS[2][1:]).data, model.compare(*PAIRS[2][1:])
        case "answer":
            data, best = why(model, *BERT_LARGE, use="answer").data, model.answer(*BERT_LARGE)
        case "fill":
            data, best = why(model, "The [MASK] was tired").data, model.fill("The [MASK] was tired").predictions[0]
    said = getattr(best, "label", None) or getattr(best, "token", None) or best.text
    assert data["answer"] == said
    if use != "answer":  # whose score is a share among the spans that may be
        assert data["probability"] == pytest.approx(best.score, abs=1e-3)
    assert list(data["methods"]) == METHODS
    curves = [method["curve"] for method in data["methods"].values()]
    assert {curve[0] for curve in curves} == {data["probability"]}
    assert len({curve[-1] for curve in curves}) == 1  # with everything hidden they agree again
    areas = {name: method["area"] for name, method in data["methods"].items()}
    least = min(areas.values())
    assert data["faithful"] is None or areas[data["faithful"]] == least
    assert all(areas[name] <= min(least + 0.0051, data["random"]["area"]) for name in data["as_faithful"])
