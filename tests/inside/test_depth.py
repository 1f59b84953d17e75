"""Through the layers, and senses: the page's numbers are those of the hidden states."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.errors import BadInput, InputTooLong
from clearhead.inside import senses_of, through_layers
from clearhead.inside.layers import feature_choices
from clearhead.inside.page import cosines
from clearhead.inside.senses import EXAMPLES, occurrence_vectors, occurrences, principal_plane
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
    said = through_layers(model, "wear a [MASK]!", top=3).data["said"]
    assert len(said) == 5
    place = model.tokenizer.encode("wear a [MASK]!").ids.index(model.tokenizer.mask_id)
    best = model.fill("wear a [MASK]!", top=3).predictions
    assert [token for token, _ in said[-1][place]] == [model.tokenizer.id_to_token(one.id) for one in best]
    assert [score for _, score in said[-1][place]] == pytest.approx([one.score for one in best], abs=1e-3)


def test_a_decoder_says_the_next_token():
    model = small("gpt2", head="causal_lm")
    data = through_layers(model, "he sat", top=1).data
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


@pytest.mark.parametrize("word", EXAMPLES)
def test_the_lectures_words(word):
    data = senses_of(small(), word).data
    assert len(data["occurrences"]) == sum(map(len, EXAMPLES[word].values()))
    assert all(o["text"][o["start"] : o["end"]] == word for o in data["occurrences"])
    found = occurrences(word, EXAMPLES[word])
    texts = [text for group in EXAMPLES[word].values() for text in group]
    vectors = occurrence_vectors(small(), texts, found)
    assert_close(torch.tensor(data["cosines"]), cosines(vectors), atol=0.001, rtol=0)
    same = [
        data["cosines"][-1][i][j]
        for i, a in enumerate(found)
        for j, b in enumerate(found)
        if i != j and a.sense == b.sense
    ]
    assert data["gaps"][-1]["same"] == pytest.approx(sum(same) / len(same), abs=0.001)


def test_a_words_vector_is_the_mean_of_its_pieces():
    text = "the bank, THE BANK and embankment"
    found = occurrences("bank", {"": [text]})
    assert [text[one.start : one.end] for one in found] == ["bank", "BANK"]
    encoding = small().tokenizer.encode(text)
    traced = trace(small(), text)
    pieces = encoding.pieces_of_span(found[1].start, found[1].end)
    expected = traced.layers[2].hidden[pieces.start : pieces.stop].mean(0)
    assert_close(occurrence_vectors(small(), [text], found)[3, 1], expected, atol=1e-5, rtol=1e-5)
    assert senses_of(small(), "bank", [text]).data["gaps"] is None


def test_the_map_keeps_what_varies_most():
    x = torch.zeros(6, 8)
    x[:, 3], x[:, 5] = torch.arange(6.0) * 10, torch.tensor([1.0, -1, 1, -1, 1, -1])
    places, shares = principal_plane(x)
    assert_close(torch.cdist(places, places), torch.cdist(x, x), atol=1e-4, rtol=1e-4)
    assert shares.sum() == pytest.approx(1.0, abs=1e-5)
    assert principal_plane(torch.ones(3, 4))[0].abs().max() == 0
    assert principal_plane(torch.randn(2, 1))[0].shape == (2, 2)
    # rounding is no variance
    assert principal_plane(torch.randn(384).repeat(7, 1))[1].sum() < 0.001


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: through_layers(small(), "the " * 70), BadInput, "at most 64"),
        (lambda: through_layers(small(), TEXT, top=0), BadInput, "top=0"),
        (lambda: through_layers(small(), TEXT, features=-1), BadInput, "features=-1"),
        (lambda: senses_of(small(), "spring"), BadInput, "no example texts for 'spring'; give some, or choose bank"),
        (lambda: senses_of(small(), " ", ["a b"]), BadInput, "the word is empty"),
        (lambda: senses_of(small(), "bank", ["a bank"]), BadInput, "'bank' occurs 1 times"),
        (lambda: senses_of(small(), "bank", "a bank"), BadInput, "a list of texts"),
        (lambda: senses_of(small(), "bank", ["bank " * 80]), InputTooLong, "the model has 64 positions"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
