import math

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.pipelines.search.bm25 import Bm25, words
from clearhead.pipelines.search.ranking import best, relevance

texts = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=12).map(" ".join), min_size=1, max_size=8
)


def test_scores_worked_out_by_hand():
    index = Bm25.build(["the bank of the river", "the bank", "money"])
    # "bank": in 2 of 3 passages; lengths 5, 2 and 1, 8/3 on average
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    first = rarity / (1 + 1.2 * (0.25 + 0.75 * 5 / (8 / 3)))
    second = rarity / (1 + 1.2 * (0.25 + 0.75 * 2 / (8 / 3)))
    np.testing.assert_allclose(index.scores("Bank!"), [first, second, 0], rtol=1e-6)
    np.testing.assert_allclose(index.scores("bank bank zebra"), [2 * first, 2 * second, 0], rtol=1e-6)
    assert index.rank(["bank", "zebra"], 5)[0].places.tolist() == [1, 0]
    assert len(index.rank(["zebra"], 5)[0].places) == 0


@given(texts, st.lists(st.sampled_from(["a", "b", "c", "g"]), min_size=1, max_size=4, unique=True))
def test_same_scores_as_bm25s(passages, query):
    theirs = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    ids = {word: number for number, word in enumerate("abcdef")}
    tokens = [[ids[word] for word in text.split()] for text in passages]
    if not any(tokens):
        return
    theirs.index((tokens, ids), show_progress=False)
    known = [ids[word] for word in query if word in ids and any(ids[word] in own for own in tokens)]
    expected = theirs.get_scores_from_ids(known) if known else np.zeros(len(passages))
    np.testing.assert_allclose(Bm25.build(passages).scores(" ".join(query)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The BANK's 2nd river-bank", ["the", "bank", "s", "2nd", "river", "bank"]),
        ("Straße ﬁnden", ["strasse", "finden"]),
        ("我去银行 today", ["我", "去", "银", "行", "today"]),
        (" …!", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.lists(st.integers(0, 5).map(float), min_size=1), st.integers(1, 12))
def test_the_best_are_those_a_sort_gives(scores, top):
    found = best(np.array(scores, np.float32), top)
    assert found.places.tolist() == sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:top]


def test_shares_are_those_of_the_querys_words():
    index = Bm25.build(["the bank of the river", "the river", "a bank", "nothing"])
    assert index.shares("xyzzy").tolist() == [0, 0, 0, 0]
    shares = index.shares("river bank xyzzy")
    assert (shares >= 0).all()
    assert (shares < 1).all()
    assert shares.argmax() == 0
    # a word that all have tells less than one that few have
    assert index.rarity[index.vocabulary["the"]] < index.rarity[index.vocabulary["nothing"]]


def test_relevance_is_a_probability_that_grows_with_words_and_meaning():
    shares, nearness = np.array([0, 0.2, 0.2, 0.9], np.float32), np.array([0, 0, 2, 2], np.float32)
    found = relevance(shares, nearness, 0.1)
    assert found.dtype == np.float32
    assert 0 < found[0] < found[1] < found[2] < found[3] < 1
    assert relevance(np.float32([0.35]), np.float32([0]), 0.1) == pytest.approx(0.5)
