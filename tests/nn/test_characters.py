"""Words from their letters: pads say nothing, and words differ before anything is learnt."""

import torch
from torch.testing import assert_close

from clearhead.nn.embeddings import CharacterCNN, spell

WORDS = ["a", "the", "The", "house", "houses", "internationalisation", "3.14", "straße"]
FILTERS = ((1, 8), (3, 16), (7, 64))


def vectors(longest, words=WORDS):
    torch.manual_seed(0)
    return CharacterCNN(16, FILTERS, 2, 32)(spell(words, longest))


def test_room_for_longer_words_changes_nothing():
    assert_close(vectors(30), vectors(60))


def test_a_longer_word_beside_changes_nothing():
    assert_close(vectors(60)[:5], vectors(60, WORDS[:5]))


def test_one_spelling_has_one_vector():
    twice = vectors(30, ["house", "the", "house"])
    assert torch.equal(twice[0], twice[2])


def test_words_differ_by_about_one_in_each_feature():
    assert 0.3 < float(vectors(30).detach().std(0).mean()) < 3
