"""Through the layers: the page's numbers are those of the hidden states and of the head."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.inside import through_layers
from clearhead.inside.layers import feature_choices
from clearhead.inside.trace import trace
from inside.models import small

TEXT = "He sat on the bank of the river"


def test_hidden_states_are_the_traces():
    found = trace(small(), TEXT)
    data = through_layers(small(), TEXT, features=5).data
    states = torch.stack([found.embeddings, *(layer.hidden for layer in found.layers)])
    assert_close(torch.tensor(data["hidden"]), states[..., :5], atol=0.006, rtol=0)
    assert_close(
        torch.tensor(data["similarity"]),
        F.cosine_similarity(states[:, :, None], states[:, None], dim=-1),
        atol=0.0006,
        rtol=0,
    )
    assert_close(torch.tensor(data["kept"]), F.cosine_similarity(states[1:], states[:-1], dim=-1), atol=0.001, rtol=0)


@pytest.mark.parametrize(("family", "stream"), [("bert", False), ("modernbert", True), ("gpt2", True)])
def test_whether_layers_add_to_one_stream_is_said(family, stream):
    assert through_layers(small(family, head=None), TEXT).data["stream"] is stream


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_the_mask_heads_last_word_is_the_models_own(family):
    model = small(family)
    said = through_layers(model, "wear a [MASK]!", top_k=3).data["said"]
    assert len(said) == 5
    place = model.tokenizer.encode("wear a [MASK]!").ids.index(model.tokenizer.mask_id)
    best = model.fill("wear a [MASK]!", top_k=3).predictions
    assert [token for token, _ in said[-1][place]] == [model.tokenizer.id_to_token(one.id) for one in best]
    assert [score for _, score in said[-1][place]] == pytest.approx([one.score for one in best], abs=1e-3)


def test_a_decoder_says_the_next_token():
    model = small("gpt2", head="causal_lm")
    data = through_layers(model, "he sat", top_k=1).data
    assert data["head"] == "causal_lm"
    ids = torch.tensor(model.tokenizer.encode("he sat").ids)
    best = model.network("causal_lm", ids[None])[0].argmax(-1).tolist()
    assert [guesses[0][0] for guesses in data["said"][-1]] == [model.tokenizer.id_to_token(i) for i in best]


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_half_precision_is_shown_too(family):
    model = copy.deepcopy(small(family))
    model.network.bfloat16()
    assert len(through_layers(model, TEXT).data["said"]) == 5


def test_a_model_without_mask_head_says_nothing():
    assert through_layers(small(head=None), TEXT).data["said"] is None


def test_the_lectures_choices_of_features():
    states = torch.randn(5, 3, 8)
    choices = feature_choices(states)
    assert_close(choices["sum of last four"], states[1:].sum(0))
    assert choices["last four side by side"].shape == (3, 32)
    assert_close(choices["second-to-last"], states[-2])
    assert list(feature_choices(states[:2])) == ["embeddings", "last", "sum of all"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: through_layers(small(), "the " * 70), BadInput, "at most 64"),
        (lambda: through_layers(small(), TEXT, top_k=0), BadInput, "top_k=0"),
        (lambda: through_layers(small(), TEXT, features=-1), BadInput, "features=-1"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
