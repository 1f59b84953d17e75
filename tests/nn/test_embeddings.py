"""Embeddings are sums; words from their letters: pads say nothing, and words differ before anything is learnt."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import InputTooLong
from clearhead.models.bert import BertConfig
from clearhead.nn.embeddings import CharacterCNN, FactorisedEmbeddings, SummedEmbeddings, check_length, spell

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


SIZES = BertConfig(vocab_size=20, max_position_embeddings=10, hidden_dropout_prob=0.0)


def test_embeddings_are_a_sum():
    part = SummedEmbeddings(SIZES, 8)
    ids, positions, segments = torch.tensor([3, 4]), torch.tensor([0, 1]), torch.tensor([0, 1])
    summed = part.token.weight[ids] + part.position.weight[positions] + part.segment.weight[segments]
    assert_close(part(ids, positions, segments), part.norm(summed))
    assert_close(part(ids, positions), part(ids, positions, torch.zeros(2, dtype=torch.long)))


def test_factorised_embeddings_project_to_the_width():
    inner = SummedEmbeddings(SIZES, 4)
    part = FactorisedEmbeddings(inner, 8)
    ids = torch.tensor([[3, 4]])
    assert part(ids, torch.tensor([[0, 1]])).shape == (1, 2, 8)
    assert part.token is inner.token


def test_more_tokens_than_positions_is_refused():
    with pytest.raises(InputTooLong, match="600 tokens, the model has 512"):
        check_length(600, 512)
