"""What a model reads: the summands add up to what the encoder itself computes, in every family."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadCheckpoint, BadInput, WrongTask
from clearhead.inside import position_tables, summed_input
from clearhead.inside.input_view import embedding_parts
from clearhead.inside.page import rounded
from clearhead.inside.trace import trace
from clearhead.nn.positions import sinusoidal_interleaved, sinusoidal_split
from inside.models import small

SUMMANDS = {
    "bert": ["token", "position", "segment", "sum", "normalised"],
    "albert": ["token", "position", "segment", "sum", "normalised", "projected"],
    "modernbert": ["token", "normalised"],
    "gpt2": ["token", "position", "sum"],
}


@pytest.mark.parametrize("family", SUMMANDS)
def test_the_sum_is_what_the_first_layer_gets(family):
    model = small(family, head=None)
    found = trace(model, "Be alert!", "BERT will hurt!")
    parts = embedding_parts(model.encoder.embeddings, found.ids, found.segments)
    assert list(parts) == SUMMANDS[family]
    assert_close(list(parts.values())[-1], found.embeddings)
    if "sum" in parts:
        assert_close(parts["sum"], sum(parts[name] for name in ("token", "position", "segment") if name in parts))


def test_the_slides_sentence():
    data = summed_input(small(), "Be alert!", "BERT will hurt!", features=8).data
    words = [word for word in data["words"] if word]
    assert "".join(words) == "Bealert!BERTwillhurt!"
    assert data["tokens"][0] == "[CLS]"
    assert data["positions"] == list(range(1, len(data["tokens"]) + 1))
    boundary = data["tokens"].index("[SEP]") + 1
    assert data["segments"] == [1] * boundary + [2] * (len(data["tokens"]) - boundary)
    assert data["width"] == 32
    assert len(data["vectors"]["token"][0]) == 8


def test_positions_are_those_of_nn():
    data = position_tables(length=20, width=8).data
    interleaved, split, rotary = data["tables"]
    assert_close(torch.tensor(interleaved["vectors"]), sinusoidal_interleaved(20, 8), atol=1e-3, rtol=0)
    assert_close(torch.tensor(split["vectors"]), sinusoidal_split(20, 8), atol=1e-3, rtol=0)
    for table in data["tables"]:
        similarity = torch.tensor(table["similarity"])
        assert_close(similarity.diagonal(), torch.ones(20), atol=1e-3, rtol=0)
        assert_close(similarity, similarity.T)
    # only the distance counts
    assert_close(torch.tensor(rotary["similarity"])[0, 5], torch.tensor(rotary["similarity"])[9, 14])


@pytest.mark.parametrize(
    ("family", "name"), [("bert", "learned"), ("albert", "learned"), ("gpt2", "learned"), ("modernbert", "rotary")]
)
def test_a_models_own_positions_come_first(family, name):
    model = small(family, head=None)
    own = position_tables(model, length=100, width=4).data["tables"][0]
    assert own["name"] == f"{name}, of this model"
    assert len(own["vectors"]) == 64
    if family == "bert":
        learned = model.encoder.embeddings.position.weight.detach()[:, :4]
        assert_close(torch.tensor(own["vectors"]), learned, atol=1e-3, rtol=0)


def test_a_models_own_rotation_is_shown_once_with_its_angles():
    model = small("modernbert", head=None)
    own, *others = position_tables(model, length=20).data["tables"]
    assert [table["name"] for table in others] == ["sinusoidal, interleaved", "sinusoidal, split"]
    assert own["features"] == "pair of features"
    pairs = model.encoder.blocks[0].attention.rotary.cos.shape[-1] // 2
    angles = torch.arange(20.0)[:, None] * model.config.global_rope_theta ** (-torch.arange(pairs) / pairs)
    assert_close(torch.tensor(own["vectors"]), angles.cos(), atol=1e-3, rtol=0)
    apart = torch.tensor(own["similarity"])[0]
    assert_close(apart, angles.cos().mean(-1), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: summed_input(small(), "the " * 80), "the text has 82 tokens, this page shows at most 64"),
        (lambda: summed_input(small(), "the", features=0), "features=0"),
        (lambda: position_tables(length=1), "length=1 positions"),
        (lambda: position_tables(width=3), "width=3"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, message):
    with pytest.raises(BadInput, match=message):
        call()


def test_numbers_for_a_page():
    assert rounded(torch.tensor([[-0.00001, 0.88079], [1.0, -2.5]]), 2) == [[0.0, 0.88], [1.0, -2.5]]
    assert str(rounded(torch.tensor(-0.00001))) == "0.0"
    with pytest.raises(BadCheckpoint, match="not finite"):
        rounded(torch.tensor([1.0, torch.nan]))


@pytest.mark.parametrize("family", ["bert", "modernbert", "albert"])
def test_without_positions_words_are_a_bag(family):
    found = position_tables(small(family), length=8, width=8, text="the animal was tired").data["swapped"]
    assert min(found["alike"]["without"]) >= 0.999
    assert min(found["alike"]["with"]) < 0.999
    first, last = found["places"]
    assert found["order"][first] == last
    assert found["order"][last] == first


def test_a_causal_mask_tells_some_of_the_order():
    found = position_tables(small("gpt2", None), length=8, width=8, text="the animal was tired").data["swapped"]
    assert min(found["alike"]["without"]) < 0.999


def test_what_cannot_be_swapped_is_said():
    with pytest.raises(BadInput, match="words change places in a model"):
        position_tables(text="the animal")
    with pytest.raises(WrongTask, match="this model has no vectors of positions to show"):
        position_tables(small("xlnet", None), text="the animal was tired")
