"""Probes of frozen features: the regression beside scikit-learn's, features beside plain ones, taggers that learn."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression as Theirs

import clearhead as ch
from clearhead.data.examples import TextExample, WordsExample
from clearhead.errors import BadConfig, BadInput
from clearhead.models.bert import BertConfig
from clearhead.nn.features import RecurrentTokenHead
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Packed
from clearhead.text import windows
from clearhead.training.settings import Settings
from probing import (
    MIXES,
    LogisticRegression,
    Probe,
    mix,
    probe_classes,
    probe_tags,
    word_states,
)

WORDS = ["stone", "river", "house", "cloud", "horse", "table", "glass", "bread"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    tokenizer = ch.train_tokenizer(texts=[" ".join(WORDS), "a longer unforeseen thing"] * 20, vocabulary=80)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "initializer_range": 0.2,
    }
    return ch.Model.create(BertConfig(vocab_size=128, max_position_embeddings=24, **sizes), tokenizer)


def sentences(count: int, seed: int) -> list[WordsExample]:
    """One of the first four words is an entity; its type is told by the word that follows."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        picks = [draw.randrange(len(WORDS)) for _ in range(draw.randint(1, 7))]
        types = ["LOW" if following < 4 else "HIGH" for following in [*picks[1:], 0]]
        tags = tuple(f"B-{kind}" if pick < 4 else "O" for pick, kind in zip(picks, types, strict=True))
        found.append(WordsExample(tuple(WORDS[pick] for pick in picks), tags))
    return found


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("strength", [0.3, 10.0])
def test_regression_is_scikit_learns(count, strength):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 12)) * draw.uniform(0.1, 3, size=12)
    y = (x @ draw.normal(size=(12, count)) + 2 * draw.normal(size=(300, count))).argmax(1)
    theirs = Theirs(C=strength, tol=1e-8, max_iter=5000).fit(x, y)
    ours = LogisticRegression.fit(torch.from_numpy(x), torch.from_numpy(y), count, strength=strength)
    np.testing.assert_allclose(ours.weight.numpy(), theirs.coef_, atol=1e-3)
    shift = ours.bias.numpy() - theirs.intercept_
    np.testing.assert_allclose(shift - shift.mean() * (count > 2), 0, atol=1e-3)  # a common shift changes nothing
    probabilities = ours.logits(torch.from_numpy(x)).softmax(-1).numpy()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(x), atol=1e-3)


def test_regression_refuses_one_class_and_no_strength():
    x = torch.zeros(2, 3)
    with pytest.raises(BadInput, match="there are 1 classes; a choice needs at least 2"):
        LogisticRegression.fit(x, torch.tensor([0, 0]), 1)
    with pytest.raises(BadConfig, match="strength must be positive, got 0"):
        LogisticRegression.fit(x, torch.tensor([0, 1]), 2, strength=0)


def test_states_of_words_are_those_of_their_first_pieces(model):
    sentence = WordsExample(("unforeseen", "stone", "\u200b", "thing"))
    (window,) = windows(model.tokenizer, sentence.words, length=24)
    encoding = window.encoding
    firsts = [encoding.words.index(word) for word in (0, 1, 3)]
    with torch.no_grad():
        expected = torch.stack([state[0] for state in hidden_states(model.encoder, torch.tensor([encoding.ids]))], 1)
    found = word_states(model, [sentences(1, 0)[0], sentence])[-4:]
    assert (found.shape, found.dtype) == ((4, 5, 32), torch.float16)
    torch.testing.assert_close(found[[0, 1, 3]].float(), expected[firsts], atol=5e-3, rtol=5e-3)
    assert not found[2].any()  # nothing is left of a character without width


def test_every_word_of_a_long_sentence_has_states(model):
    (states,) = (word_states(model, [WordsExample(tuple(WORDS * 10))]),)
    assert states.shape[0] == 80
    assert states.any(-1).all()


def test_mixes_are_what_their_names_say(model):
    states = word_states(model, sentences(3, 0))
    by_name = {name: mix(states, name).float() for name in MIXES}
    full = states.float()
    assert torch.equal(by_name["embeddings"], full[:, 0])
    assert torch.equal(by_name["second-to-last"], full[:, 3])
    torch.testing.assert_close(by_name["sum of all"], full[:, 1] + full[:, 2] + full[:, 3] + full[:, 4])
    assert torch.equal(by_name["sum of last four"], by_name["sum of all"])  # there are four
    assert torch.equal(by_name["concat of last four"], torch.cat([full[:, i] for i in (1, 2, 3, 4)], -1))
    assert torch.equal(by_name["last"], full[:, 4])
    with pytest.raises(BadInput, match="'sum of last four' needs 4 layers, this model has 2"):
        mix(states[:, :3], "sum of last four")
    with pytest.raises(BadInput, match="there is no mix 'first'; choose one of embeddings, last"):
        mix(states, "first")


def test_taggers_learn_and_a_bilstm_sees_the_neighbours(model):
    """The embeddings of a random model tell words apart but not what stood before."""
    training, dev = sentences(120, 1), sentences(60, 2)
    features, features_dev = (mix(word_states(model, of), "embeddings") for of in (training, dev))

    def f1(lstm: int | None) -> float:
        recipe = Probe(lstm=lstm, dropout=0.0, items=8, train=Settings(epochs=10, learning_rate=1e-2))
        return probe_tags((training, features), (dev, features_dev), recipe)["f1"]

    alone, beside = f1(None), f1(16)
    assert 40 < alone < 75
    assert beside > 90


def test_the_same_seed_gives_the_same_figures(model):
    training, dev = sentences(20, 1), sentences(20, 2)
    features, features_dev = (mix(word_states(model, of), "last") for of in (training, dev))
    recipe = Probe(lstm=4, train=Settings(epochs=1, learning_rate=1e-2))
    first, second = (probe_tags((training, features), (dev, features_dev), recipe) for _ in range(2))
    assert first == second


def test_a_bilstm_reads_each_sentence_alone():
    torch.manual_seed(0)
    tagger, x = RecurrentTokenHead(6, 4, 3).eval(), torch.randn(9, 6)
    together = tagger(x, Packed.of([2, 4, 3]))
    alone = torch.cat([tagger(part, Packed.of([len(part)])) for part in x.split([2, 4, 3])])
    torch.testing.assert_close(together, alone)


def test_classes_are_read_from_the_first_vector(model):
    def texts(seed: int) -> list[TextExample]:
        draw = random.Random(seed)
        picks = [draw.choice(WORDS) for _ in range(80)]
        return [TextExample(f"{word} {word} {word}", None, "low" if word < "h" else "high") for word in picks]

    assert probe_classes(model, texts(0), texts(1), strength=100.0)["accuracy"] == 100
    with pytest.raises(BadInput, match="single texts, not pairs"):
        probe_classes(model, [TextExample("a", "b", "low")], texts(1))
    with pytest.raises(BadInput, match=r"one class for each text, not 1\.5"):
        probe_classes(model, [TextExample("a", None, 1.5)], texts(1))


def test_features_must_fit_the_words(model):
    training = sentences(4, 0)
    features = mix(word_states(model, training), "last")
    with pytest.raises(BadInput, match=r"rows of features do not fit \d+ words"):
        probe_tags((training, features[:-1]), (training, features), Probe())
    with pytest.raises(BadInput, match="a sentence has no tags"):
        probe_tags(([replace(training[0], tags=None), *training[1:]], features), (training, features), Probe())
