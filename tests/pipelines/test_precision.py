import numpy as np
import pytest
from sentence_transformers.util.quantization import quantize_embeddings

from clearhead.errors import BadInput
from clearhead.pipelines.embedding import quantise, ranges_of, similarities
from conftest import SENTENCES

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
    assert np.array_equal(model.embed(SENTENCES[0], precision="int8", ranges=ranges), quantise(vectors, "int8")[0])
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
