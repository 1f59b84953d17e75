"""Duplicates and clusters: fixed vectors, brute force beside it."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadInput, NotFound
from clearhead.pipelines import clustering as neighbours
from clearhead.pipelines.clustering import Duplicate, cluster, duplicates, kept, near_pairs
from conftest import SENTENCES

angles = st.lists(st.integers(0, 71), max_size=25)


def unit(degrees: list[int]) -> np.ndarray:
    turned = np.array([5 * number for number in degrees], np.float32) * np.pi / 180
    return np.stack([np.cos(turned), np.sin(turned)], 1).astype(np.float32)


@given(angles, st.integers(1, 7))
def test_blocks_change_nothing(degrees, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_BLOCK", block)
        found = {
            tuple(pair): score
            for pairs, scores in near_pairs(unit(degrees), 0.95)
            for pair, score in zip(pairs.tolist(), scores, strict=True)
        }
    cosines = unit(degrees) @ unit(degrees).T
    assert set(found) == {(i, j) for j in range(len(degrees)) for i in range(j) if cosines[i, j] >= 0.95}
    assert all(score <= 1 for score in found.values())


@given(angles, st.sampled_from([0.5, 0.9, 0.99]))
def test_every_text_is_in_one_cluster_and_near_the_one_that_took_it(degrees, threshold):
    vectors = unit(degrees)
    found = cluster(vectors, threshold=threshold)
    assert sorted(place for one in found for place in one.members) == list(range(len(degrees)))
    assert [len(one.members) for one in found] == sorted((len(one.members) for one in found), reverse=True)
    cosines = vectors @ vectors.T
    for one in found:
        assert one.centre in one.members
        assert any((cosines[place, list(one.members)] >= threshold - 1e-6).all() for place in range(len(degrees)))


def test_clusters_by_threshold_and_by_number():
    vectors = unit([0, 18, 1, 19, 2, 40])
    assert [one.members for one in cluster(vectors, threshold=0.9)] == [(0, 2, 4), (1, 3), (5,)]
    assert [one.members for one in cluster(vectors, clusters=3)] == [(0, 2, 4), (1, 3), (5,)]
    assert cluster(vectors, threshold=0.9)[0].to_dict() == {"size": 3, "centre": 2, "members": [0, 2, 4]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give threshold= or clusters=, one of the two"),
        ({"threshold": 0.5, "clusters": 2}, "one of the two"),
        ({"threshold": 2.0}, "threshold=2.0 is no cosine"),
        ({"clusters": 0}, "3 texts cannot form clusters=0"),
        ({"clusters": 4}, "choose 1 to 3"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(BadInput, match=message):
        cluster(unit([0, 1, 2]), **options)


def test_without_the_library_k_means_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(NotFound, match=r"K-means needs sklearn.*clearhead\[search\]"):
        cluster(unit([0, 1]), clusters=1)


def test_copies_and_near_duplicates():
    vectors = {"a": unit([0])[0], "b": unit([1])[0], "c": unit([30])[0]}
    asked: list[str] = []

    def embed(texts):
        asked.extend(texts)
        return np.stack([vectors[text] for text in texts])

    found = duplicates(["a", "c", "a", "b", "c", "a"], embed, 0.99)
    assert asked == ["a", "c", "b"]
    assert [(one.first, one.second, one.exact) for one in found] == [
        (0, 2, True),
        (0, 3, False),
        (1, 4, True),
        (0, 5, True),
    ]
    assert found[1].score == pytest.approx(np.cos(5 * np.pi / 180))
    assert list(kept(6, found)) == [0, 1]
    assert duplicates([], lambda texts: np.zeros((0, 2), np.float32), 0.9) == []


def test_a_text_like_a_dropped_one_only_is_kept():
    chain = [Duplicate(0, 1, 0.9, False), Duplicate(1, 2, 0.9, False)]
    assert list(kept(3, chain)) == [0, 2]


def test_the_models_own_methods(model):
    texts = [*SENTENCES, SENTENCES[0], SENTENCES[1] + " "]
    found = model.duplicates(texts, threshold=0.9999)
    assert {(one.first, one.second, one.exact) for one in found} == {(0, 4, True), (1, 5, False)}
    groups = model.cluster(texts, threshold=0.9999)
    assert [one.members for one in groups[:2]] == [(0, 4), (1, 5)]
    assert len(model.cluster(iter(texts), clusters=4)) == 4
