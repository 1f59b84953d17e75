"""Senses: an occurrence's vector is the mean of its pieces, and the map keeps what varies most."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput, InputTooLong
from clearhead.inside import senses, senses_of
from clearhead.inside.page import cosines
from clearhead.inside.senses import EXAMPLES, _astray, occurrence_vectors, occurrences, principal_plane
from clearhead.inside.trace import trace
from clearhead.pipelines.senses import Occurrence
from inside.models import small


@pytest.mark.parametrize("word", EXAMPLES)
def test_the_lectures_words(word):
    data = senses_of(small(), word).data
    assert len(data["occurrences"]) == sum(map(len, EXAMPLES[word].values()))
    said = {o["text"][o["start"] : o["end"]] for o in data["occurrences"]}
    assert said == ({"bank", "banks"} if word == "bank" else {word})
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


SLIDES = {
    "bank": [
        "It is safest to deposit your money in the bank.",
        "All the animals lined up along the river bank.",
        "Today, blood banks collect blood.",
    ],
    "train": ["He took a train.", "He likes to train in the mornings."],
}


@pytest.mark.parametrize("word", SLIDES)
def test_the_slides_own_sentences_begin_each_sense(word):
    assert [texts[0] for texts in EXAMPLES[word].values()] == SLIDES[word]


def test_what_is_not_told_apart_is_said():
    # of sense 0: 0 and 1, of sense 1: 2 and 3, of sense 2: 4, which is alone and can only be near to others
    found = [Occurrence("a", i, 0, 1, sense) for i, sense in enumerate([0, 0, 1, 1, 2])]
    apart = (
        torch.eye(5) + torch.tensor([[0, 9, 1, 1, 1], [9, 0, 1, 1, 1], [1, 1, 0, 9, 1], [1, 1, 9, 0, 1], [1] * 5]) / 10
    )
    mixed = apart.clone()
    mixed[0, 2] = mixed[2, 0] = 0.95
    assert _astray(torch.stack([apart, mixed]), found) == [[], [[0, 2], [2, 0]]]
    # one vector for all, as before any attention: what rounding leaves of a difference says nothing
    same = 1 - 1e-6 * torch.rand(5, 5, generator=torch.Generator().manual_seed(0))
    assert _astray(same[None], found) == [[[0, 2], [1, 2], [2, 0], [3, 0]]]
    assert _astray(apart[None], found[:1] + found[2:3] + found[4:]) is None


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


def test_a_text_with_the_word_twice_is_read_once(monkeypatch):
    read = []
    states = senses.layer_states

    def counted(model, encodings):
        read.append(len(encodings))
        return states(model, encodings)

    monkeypatch.setattr(senses, "layer_states", counted)
    senses_of(small(), "bank", ["the bank and the bank", "no such word", "a bank"])
    assert read == [2]


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
