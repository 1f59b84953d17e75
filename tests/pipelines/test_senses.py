import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadInput, NotFound
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Padded
from clearhead.pipelines.embedding import TokenVectors
from clearhead.pipelines.senses import average_linkage, find_word, forms_of, senses
from conftest import SENTENCES

LONG = " ".join(SENTENCES * 5)
BANKS = [
    "It is safest to deposit your money in the bank.",
    "All the animals lined up along the river bank.",
    "Today, blood banks collect blood.",
]


def table(*words: tuple[str, float]) -> TokenVectors:
    """A text of single letters, one token each, with vectors at an angle."""
    offsets = tuple((2 * i, 2 * i + 1) for i in range(len(words)))
    vectors = np.array([[np.cos(angle), np.sin(angle)] for _, angle in words], np.float32)
    return TokenVectors(tuple(word for word, _ in words), offsets, vectors)


def test_occurrences_are_grouped_by_their_vectors():
    texts = ["a b a", "A c", "b a"]
    tokens = [table(("a", 0.0), ("b", 2.0), ("a", 0.1)), table(("A", 1.5), ("c", 0.0)), table(("b", 3.0), ("a", 1.4))]
    found = senses("a", texts, tokens, threshold=0.9)
    assert [(one.text, one.index, one.start, one.end, one.sense) for one in found.occurrences] == [
        ("a", 0, 0, 1, 0),
        ("a", 0, 4, 5, 0),
        ("A", 1, 0, 1, 1),
        ("a", 2, 2, 3, 1),
    ]
    assert found.groups == [[0, 1], [2, 3]]
    np.testing.assert_allclose(found.cosines[0], np.cos([0, 0.1, 1.5, 1.4]), atol=1e-6)
    assert len(senses("a", texts, tokens, count=3).groups) == 3
    assert set(found.to_dict()) == {"occurrences", "cosines", "threshold"}
    assert (found.threshold, senses("a", texts, tokens, count=3).threshold) == (0.9, None)


def test_where_all_vectors_are_near_senses_must_be_nearer():
    texts = ["a b", "a c", "a d", "a e"]
    # every token within half a radian of the others: any two are nearer than 0.75
    near = [table(("a", angle), ("x", other)) for angle, other in ((0.0, 0.5), (0.02, 0.48), (0.5, 0.0), (0.48, 0.1))]
    assert senses("a", texts, near).groups == [[0, 1], [2, 3]]
    assert senses("a", texts, near, threshold=0.75).groups == [[0, 1, 2, 3]]


def test_words_are_found_whole_in_any_form_and_case():
    text = "Bank, bank-account, embankment; BANKS and banknote _bank_"
    assert [text[slice(*span)] for span in find_word(["bank"], text)] == ["Bank", "bank"]
    assert [text[slice(*span)] for span in find_word(["bank", "banks"], text)] == ["Bank", "bank", "BANKS"]
    assert list(find_word(["c++"], "in C++ and c")) == [(3, 6)]


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("bank", ["bank", "banks"]),
        ("Box", ["Box", "Boxes"]),
        ("city", ["city", "cities"]),
        ("day", ["day", "days"]),
        ("news", ["news"]),
        ("blood bank", ["blood bank"]),
        ("c++", ["c++"]),
        ("élan", ["élan"]),
    ],
)
def test_a_word_has_a_form_with_s(word, forms):
    assert forms_of(word) == forms


def test_one_word_is_found_in_both_forms_and_several_are_taken_as_they_are():
    texts = ["a as"]
    tokens = [TokenVectors(("a", "as"), ((0, 1), (2, 4)), np.eye(2, dtype=np.float32))]
    assert [one.text for one in senses("a", texts, tokens).occurrences] == ["a", "as"]
    assert [one.text for one in senses(["a"], texts, tokens).occurrences] == ["a"]


def test_a_word_is_the_mean_of_its_pieces_in_the_layers_asked_for(model):
    found = model.senses(["bank", "banks"], BANKS, layers=[-2, -1])
    assert [one.text for one in found.occurrences] == ["bank", "bank", "banks"]
    vectors = []
    for text, one in zip(BANKS, found.occurrences, strict=True):
        encoding = model.tokenizer.encode(text)
        ids = torch.tensor([encoding.ids])
        with torch.no_grad():
            states = hidden_states(model.encoder, ids, Padded.full(ids))
        pieces = encoding.pieces_of_span(one.start, one.end)
        vectors.append(((states[-2] + states[-1]) / 2)[0, pieces.start : pieces.stop].mean(0))
    unit = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
    np.testing.assert_allclose(found.cosines, unit @ unit.T, atol=1e-5)


def test_token_vectors_of_long_and_short_texts(model):
    for text, found in zip([SENTENCES[0], "", LONG], model.token_vectors([SENTENCES[0], "", LONG]), strict=True):
        pieces = model.tokenizer.pieces(text)
        assert list(found.tokens) == pieces.tokens
        assert list(found.offsets) == pieces.offsets
        assert found.vectors.shape == (len(pieces), 32)
    ids = torch.tensor([model.tokenizer.encode(SENTENCES[0]).ids])
    with torch.no_grad():
        alone = model.encoder(ids)[0, 1:-1]
    np.testing.assert_allclose(model.token_vectors(SENTENCES[0]).vectors, alone, atol=1e-5)
    assert model.token_vectors("bank", layers=[1, 2], combine="concat").vectors.shape[1] == 64


def test_a_word_far_into_a_long_text_is_found(model):
    found = model.senses("bank", [LONG])
    assert len(found.occurrences) == 10
    assert all(LONG[one.start : one.end] == "bank" for one in found.occurrences)


@pytest.mark.parametrize(
    ("word", "options", "error", "message"),
    [
        ("zebra", {}, NotFound, "'zebra' is in none of the 3 texts"),
        (["zebra", "zebras"], {}, NotFound, "'zebra' or 'zebras' is in none"),
        (" ", {}, BadInput, "the word is empty"),
        ("bank", {"count": 4}, BadInput, "3 cannot be put into 4 groups; choose 1 to 3"),
    ],
)
def test_bad_input_is_refused(model, word, options, error, message):
    with pytest.raises(error, match=message):
        model.senses(word, BANKS, **options)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=9), st.integers(1, 9))
def test_linkage_joins_the_nearest_groups(angles, count):
    turned = np.array(angles) / 100
    cosines = np.cos(turned[:, None] - turned).astype(np.float32)
    groups = average_linkage(cosines, count=min(count, len(angles)))
    assert len(groups) == min(count, len(angles))
    assert sorted(place for group in groups for place in group) == list(range(len(angles)))
    apart = average_linkage(cosines, threshold=0.9)
    for i, one in enumerate(apart):
        for other in apart[i + 1 :]:
            assert cosines[np.ix_(one, other)].mean() < 0.9 + 1e-6
