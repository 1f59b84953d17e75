import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.util.quantization import quantize_embeddings

import clearhead as ch
from clearhead.errors import BadInput
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Padded
from clearhead.pipelines.embedding import quantise, ranges_of, similarities
from conftest import SENTENCES

LONG = " ".join(SENTENCES * 5)  # several windows of 64 tokens


def close(a, b):
    np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5)


def alone(model: ch.Model, text: str) -> list[torch.Tensor]:
    """Hidden states of one text by itself, the plainest way."""
    ids = torch.tensor([model.tokenizer.encode(text).ids])
    with torch.no_grad():
        return [state[0] for state in hidden_states(model.encoder, ids, Padded.full(ids))]


def test_a_vector_is_the_mean_of_its_tokens(model):
    for text, vector in zip(SENTENCES, model.embed(SENTENCES), strict=True):
        close(vector, alone(model, text)[-1].mean(0))


@given(
    texts=st.lists(st.sampled_from([*SENTENCES, "", "mask", LONG]), min_size=1, max_size=7), size=st.integers(1, 200)
)
@settings(max_examples=30, deadline=None)
def test_neither_neighbours_nor_batch_size_change_a_vector(model, texts, size):
    together = model.embed(texts, batch_tokens=size)
    for text, vector in zip(texts, together, strict=True):
        close(vector, model.embed(text))


def test_layers_and_how_they_are_combined(model):
    states = alone(model, SENTENCES[0])
    last_two = [states[-2].mean(0), states[-1].mean(0)]
    close(model.embed(SENTENCES[0], layers=[0]), states[0].mean(0))
    close(model.embed(SENTENCES[0], layers=[-2, -1]), (last_two[0] + last_two[1]) / 2)
    close(model.embed(SENTENCES[0], layers=[2, 3], combine="sum"), last_two[0] + last_two[1])
    close(model.embed(SENTENCES[0], layers=[-2, -1], combine="concat"), torch.cat(last_two))


def test_poolings(model):
    state = alone(model, SENTENCES[0])[-1]
    close(model.embed(SENTENCES[0], pooling="first"), state[0])
    close(model.embed(SENTENCES[0], pooling="max"), state.amax(0))
    counts = torch.arange(1, len(state) + 1)[:, None]
    close(model.embed(SENTENCES[0], pooling="weighted"), (state * counts).sum(0) / counts.sum())
    close(np.linalg.norm(model.embed(SENTENCES, normalise=True), axis=1), np.ones(len(SENTENCES)))


def test_weighted_pooling_is_the_same_in_a_rectangle():
    x, keep = torch.randn(2, 5, 3), torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]).bool()
    padded = Padded.of(keep)
    packed, layout = padded.pack(x)
    torch.testing.assert_close(padded.weighted(x), layout.weighted(packed))
    torch.testing.assert_close(padded.weighted(x)[0], (x[0, 0] + 2 * x[0, 1] + 3 * x[0, 2]) / 6)


def test_fewer_dimensions_are_the_first_and_normalised_after(model):
    whole = model.embed(SENTENCES)
    close(model.embed(SENTENCES, dimensions=8), whole[:, :8])
    cut = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    close(model.embed(SENTENCES, dimensions=8, normalise=True), cut)
    assert model.embed([], dimensions=8).shape == (0, 8)


@pytest.mark.parametrize("pooling", ["mean", "max", "weighted"])
def test_a_long_text_is_read_to_its_end(model, pooling):
    """Changing the last word changes the vector, although the word is far beyond the model's positions."""
    other = LONG.removesuffix("mask.") + "street."
    assert len(model.tokenizer.encode(LONG)) > 3 * model.encoder.max_length
    assert np.abs(model.embed(LONG, pooling=pooling) - model.embed(other, pooling=pooling)).max() > 1e-4


def test_windows_count_by_the_tokens_they_are_best_for(model):
    windows = ch.windows(model.tokenizer, LONG, length=model.encoder.max_length)
    weights = np.array([len(window.best) for window in windows])
    parts = []
    for window in windows:
        with torch.no_grad():
            parts.append(model.encoder(torch.tensor([window.encoding.ids]))[0].mean(0).numpy())
    close(model.embed(LONG), (np.stack(parts) * weights[:, None]).sum(0) / weights.sum())


def test_any_iterable_and_none_at_all(model):
    close(model.embed(text for text in SENTENCES), model.embed(SENTENCES))
    assert model.embed([]).shape == (0, 32)
    assert model.embed([], layers=[-2, -1], combine="concat").shape == (0, 64)
    assert model.embed("").shape == (32,)


def test_progress_counts_every_text_once(model):
    done: list[int] = []
    model.embed(SENTENCES, batch_tokens=20, progress=done.append)
    assert sum(done) == len(SENTENCES)
    assert len(done) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [4]}, "layer 4 is not there; this model has layers 0 to 3"),
        ({"layers": [-5, -1]}, "layer -5 is not there"),
        ({"layers": []}, "no layers"),
        ({"layers": [0, 1], "combine": "product"}, "combine='product' is not known; choose mean, sum or concat"),
        ({"dimensions": 0}, "dimensions=0 cannot be kept of 32"),
        ({"pooling": "median"}, "pooling='median' is not known; choose mean, first, max"),
    ],
)
def test_bad_options_are_refused(model, options, message):
    with pytest.raises(BadInput, match=message):
        model.embed(SENTENCES, **options)


VECTORS = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
OTHERS = np.random.default_rng(1).normal(size=(7, 64)).astype(np.float32)


def cosines(a, b):
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    return a @ b.T


def test_same_numbers_as_sentence_transformers():
    ranges = ranges_of(VECTORS)
    assert np.array_equal(quantise(OTHERS, "int8", ranges), quantize_embeddings(OTHERS, "int8", ranges=ranges))
    assert np.array_equal(quantise(VECTORS, "int8"), quantize_embeddings(VECTORS, "int8", ranges=ranges))
    assert np.array_equal(quantise(OTHERS, "binary"), quantize_embeddings(OTHERS, "ubinary"))


def test_int8_keeps_the_cosines():
    ranges = ranges_of(np.concatenate([VECTORS, OTHERS]))
    small = (quantise(one, "int8", ranges) for one in (OTHERS, VECTORS))
    np.testing.assert_allclose(similarities(*small, ranges=ranges), cosines(OTHERS, VECTORS), atol=0.01)


def test_bits_are_compared_by_those_that_agree():
    found = similarities(quantise(OTHERS, "binary"), quantise(VECTORS, "binary"))
    np.testing.assert_allclose(found, cosines(np.sign(OTHERS), np.sign(VECTORS)), atol=1e-6)
    np.testing.assert_allclose(similarities(OTHERS, VECTORS), cosines(OTHERS, VECTORS), atol=1e-6)


def test_a_dimension_that_never_changes_is_no_division_by_zero():
    still = np.ones((3, 8), np.float32)
    assert np.array_equal(quantise(still, "int8"), np.full((3, 8), -128, np.int8))


def test_a_model_gives_them(model):
    vectors = model.embed(SENTENCES)
    ranges = ranges_of(vectors)
    one = model.embed(SENTENCES[0], precision="int8", ranges=ranges)
    # of the ranges' own ends, a rounding may fall on either side
    assert np.abs(one.astype(int) - quantise(vectors, "int8")[0]).max() <= 1
    assert model.embed(SENTENCES, precision="binary").shape == (4, 4)
    assert model.embed(SENTENCES[0], precision="binary").dtype == np.uint8


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: quantise(VECTORS, "int4"), "precision='int4' is not known; choose float32, int8, binary"),
        (lambda: quantise(VECTORS[:1], "int8"), "ranges are taken over two vectors or more"),
        (lambda: quantise(VECTORS[:, :9], "binary"), "9 bits do not fill bytes"),
        (lambda: similarities(quantise(VECTORS, "int8"), quantise(VECTORS, "int8")), "give ranges="),
        (lambda: similarities(VECTORS, quantise(VECTORS, "int8")), "cannot be compared"),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(BadInput, match=message):
        act()
