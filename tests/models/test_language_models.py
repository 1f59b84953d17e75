"""Recurrent language models and ELMo: what may be seen of a text, and that all of it is learnt."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.elmo import Elmo, ElmoConfig
from clearhead.models.rnnlm import BUILD, RecurrentLMConfig
from clearhead.nn.embeddings import CharacterCNN, spell
from clearhead.nn.layout import Packed

WORDS = ["bank", "river", "money", "the", "of", "banks", "Straße", "x" * 99]


def elmo() -> Elmo:
    torch.manual_seed(0)
    config = ElmoConfig(vocab_size=len(WORDS), hidden_size=16, character_size=4, max_characters=12)
    network = Elmo(config)
    network.spelling.copy_(spell(WORDS, 12))
    return network.eval()


def test_spelling_has_a_begin_and_an_end_and_no_unknown_letter():
    table = spell(["ab", "é", "x" * 20], 6)
    assert table.tolist()[0] == [1, 97 + 3, 98 + 3, 2, 0, 0]
    assert table.tolist()[1] == [1, 0xC3 + 3, 0xA9 + 3, 2, 0, 0]
    assert table.tolist()[2] == [1, 123, 123, 123, 123, 2]


def test_a_word_has_one_vector_wherever_it_stands():
    torch.manual_seed(0)
    words = CharacterCNN(4, [(1, 3), (2, 5)], 2, 6).eval()
    with torch.no_grad():
        found = words(spell(["bank", "the", "bank"], 8))
        alone = words(spell(["the"], 8))
    assert torch.equal(found[0], found[2])
    assert_close(found[1:2], alone)
    assert not torch.allclose(found[0], found[1])


def test_elmo_looks_only_where_it_may():
    """The forward logits at a word depend on it and those before, the backward ones on it and those after."""
    network = elmo()
    layout, changed = Packed.of([5, 2]), 2
    first = torch.tensor([0, 1, 2, 3, 4, 5, 6])
    second = first.clone()
    second[changed] = 7
    with torch.no_grad():
        (ahead, back), (ahead_2, back_2) = network(first, layout), network(second, layout)
    assert_close(ahead[:2], ahead_2[:2])
    assert_close(back[3:], back_2[3:])
    assert_close(ahead[5:], ahead_2[5:])
    for place in (2, 3, 4):
        assert not torch.allclose(ahead[place], ahead_2[place])
    for place in (0, 1, 2):
        assert not torch.allclose(back[place], back_2[place])


def test_elmo_backward_is_forward_on_the_reversed_text():
    network = elmo()
    network.backwards.load_state_dict(network.forwards.state_dict())
    ids = torch.tensor([0, 1, 2, 3])
    with torch.no_grad():
        _, back = network(ids, Packed.of([4]))
        ahead, _ = network(ids.flip(0), Packed.of([4]))
    assert_close(back, ahead.flip(0))


def test_elmo_gives_all_layers_of_words_it_has_never_seen():
    network, layout = elmo(), Packed.of([3, 1])
    spelled = spell(["unseen", "bank", "word", "bank"], 12)
    with torch.no_grad():
        states = network.states(spelled, layout)
        alone = network.states(spelled[3:], Packed.of([1]))
    assert states.shape == (4, network.layers, 32)
    assert_close(states[3:], alone)
    assert torch.equal(states[1, 0], states[3, 0])  # letters alone
    assert not torch.allclose(states[1, 2], states[3, 2])  # in its sentence


def test_a_gradient_reaches_every_parameter_of_elmo():
    network = elmo().train()
    ahead, back = network(torch.tensor([0, 1, 2, 3]), Packed.of([3, 1]))
    (ahead.square().sum() + back.square().sum()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("name", BUILD)
def test_a_language_model_steps_as_it_reads(name):
    torch.manual_seed(0)
    network = RECURRENT_FAMILIES[name].network(RecurrentLMConfig(vocab_size=9, hidden_size=8)).eval()
    texts = [[1, 2, 3, 4], [5, 6, 7, 8]]
    with torch.no_grad():
        wanted = network(torch.tensor(texts).flatten(), Packed.of([4, 4])).view(2, 4, 9)
        logits, state = network.begin([text[:2] for text in texts])
        assert_close(logits, wanted[:, 1], atol=1e-6, rtol=1e-6)
        for place in (2, 3):
            logits, state = network.step(torch.tensor([text[place] for text in texts]), state)
            assert_close(logits, wanted[:, place], atol=1e-6, rtol=1e-6)
        swapped, _ = network.step(torch.tensor([1, 1]), state.select(torch.tensor([1, 0])))
        plain, _ = network.step(torch.tensor([1, 1]), state)
    assert_close(swapped, plain.flip(0), atol=1e-6, rtol=1e-6)
    with pytest.raises(BadInput, match="prompt 0 is empty; give it at least one token"):
        network.begin([[]])
