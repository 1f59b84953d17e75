import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import BadInput
from clearhead.pipelines.summarisation import centrality, select, summarise
from conftest import SENTENCES
from text.strategies import any_strings

TEXT = " ".join(SENTENCES)


@given(st.one_of(any_strings, st.just(TEXT)), st.integers(1, 4))
@settings(max_examples=30)
def test_sentences_are_slices_in_order(model, text, count):
    found = model.summarise(text, sentences=count)
    assert len(found.sentences) <= count
    end = 0
    for one in found.sentences:
        assert text[one.start : one.end] == one.text
        assert one.start >= end
        end = one.end


def test_many_texts_and_each_alone(model):
    texts = [TEXT, "", SENTENCES[0], "One. " + TEXT]
    together = model.summarise(texts, sentences=2)
    assert [len(one.sentences) for one in together] == [2, 0, 1, 2]
    for text, found in zip(texts, together, strict=True):
        assert found.text == model.summarise(text, sentences=2).text
    assert set(together[0].to_dict()) == {"summary", "sentences"}
    assert set(together[0].to_dict()["sentences"][0]) == {"text", "start", "end", "score"}


def test_a_short_text_is_its_own_summary(model):
    assert model.summarise(TEXT, sentences=50).text == TEXT


def test_central_sentences_come_first_and_copies_of_them_do_not():
    # two that are the same, near to all; one a little off; one far away
    vectors = np.array([[1, 0], [1, 0], [0.8, 0.6], [0, 1]], np.float32)
    cosines = vectors @ vectors.T
    rank = centrality(cosines)
    assert rank.sum() == pytest.approx(4, rel=1e-4)
    assert rank.argmax() == 2
    assert rank[0] == pytest.approx(rank[1])
    assert rank[3] == rank.min()
    assert select(np.array([1, 1, 0.9, 0.1], np.float32), cosines, 4) == [0, 2, 3, 1]


def test_centrality_is_what_a_walk_converges_to():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(6, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    steps = cosines.clip(min=0) / cosines.clip(min=0).sum(1, keepdims=True)
    exact = np.linalg.solve(np.eye(6) - 0.85 * steps.T, np.full(6, 0.15))
    np.testing.assert_allclose(centrality(cosines), exact, rtol=1e-4)


def test_a_summary_of_nothing_is_refused():
    with pytest.raises(BadInput, match="a summary of 0 sentences is none"):
        summarise([TEXT], lambda texts: np.zeros((len(texts), 2), np.float32), sentences=0)
