"""ELMo from text to a tagger: trained, saved, read back, its layers mixed by a probe."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.corpus import Corpus
from clearhead.data.examples import WordsExample
from clearhead.data.pretraining import with_neighbours
from clearhead.errors import BadInput
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.elmo import ElmoConfig
from clearhead.models.gpt import Gpt2Config
from clearhead.models.rnnlm import RecurrentLMConfig
from clearhead.pipelines.model import Model
from clearhead.pipelines.word_vectors import ContextualWords
from clearhead.training.loop import train
from clearhead.training.recipes.language import pretrain_language, recipe_for
from clearhead.training.recipes.run import learn_vocabulary_once
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.language import CausalLM
from probing import Probe, probe_tags
from training.toy import ToySource

EVERY = Every(log=5, save=10**6, evaluate=10**6)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def sentences():
    """A bank is a place near a river and an office near money: the word alone does not tell which."""
    draw = random.Random(0)
    rows = []
    for _ in range(300):
        near, does, sense = draw.choice([("river", "flooded", "PLACE"), ("money", "closed", "OFFICE")])
        rows.append(WordsExample((near, "bank", does), ("O", f"B-{sense}", "O")))
    return rows


@pytest.fixture(scope="module")
def elmo(sentences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    corpus = folder / "text.txt"
    corpus.write_text("\n\n".join(" ".join(example.words) for example in sentences), encoding="utf-8")
    config = ElmoConfig(hidden_size=16, character_size=4, max_characters=12, dropout=0.0)
    settings = Settings(steps=40, learning_rate=1e-2, every=EVERY)
    recipe = replace(recipe_for("elmo"), model=config, length=16, tokens=128, train=settings)
    words = learn_vocabulary_once(Corpus(corpus), folder / "out", size=30_000, kind="word")
    model, _ = pretrain_language(Corpus(corpus), words, folder / "out", recipe)
    return ContextualWords(model.network, model.tokenizer), folder / "out"


def test_it_learns_and_is_read_back(elmo):
    words, folder = elmo
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < 0.7 * rows[0]["loss"]
    assert rows[-1]["evaluation/perplexity"] < 2.5
    again = ContextualWords.load(folder)
    sentence = [["the", "unheard-of", "bank"], ["bank"]]
    for ours, theirs in zip(words.layers(sentence), again.layers(sentence), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.raises(BadInput, match="sentence 1 has no words"):
        words.layers([["a"], []])


def test_a_tagger_learns_the_mix_and_tells_senses_apart(elmo, sentences):
    words, _ = elmo
    layers = torch.cat(words.layers([example.words for example in sentences]))
    training = (sentences[:200], layers[:600])
    dev = (sentences[200:], layers[600:])
    recipe = Probe(dropout=0.0, train=Settings(steps=40, learning_rate=3e-2, every=EVERY))
    mixed = probe_tags(training, dev, recipe)
    letters = probe_tags((training[0], training[1][:, 0]), (dev[0], dev[1][:, 0]), recipe)
    assert mixed["f1"] > 95
    assert letters["f1"] < 75  # one vector for each word cannot tell


def test_texts_have_the_vectors_of_their_words(elmo):
    words, folder = elmo
    model = ch.load(folder)
    sentence, text = ["money", "bank", "unheard-of"], "money bank unheard-of"
    cut = ["money", "bank", "unheard", "-", "of"]  # a text is cut at punctuation, too
    (whole,) = words.layers([cut])
    found = model.token_vectors(text, layers=[0, 2], combine="concat")
    assert [text[start:end] for start, end in found.offsets] == cut
    np.testing.assert_allclose(found.vectors, torch.cat([whole[:, 0], whole[:, 2]], -1), atol=1e-6)
    np.testing.assert_allclose(model.embed(text), whole[:, 2].mean(0), atol=1e-6)
    many = [" ".join(sentence), "bank", "", "river bank flooded"]
    together = model.embed(many, pooling="max", layers=[0, 1, 2])
    for one, alone in zip(many, together, strict=True):
        np.testing.assert_allclose(model.embed(one, pooling="max", layers=[0, 1, 2]), alone, atol=1e-6)
    assert not together[2].any()
    assert model.embed(many, normalise=True, dimensions=4).shape == (4, 4)


def test_occurrences_of_a_word_are_told_apart(elmo):
    model = ch.load(elmo[1])
    senses = model.senses("bank", ["river bank flooded", "money bank closed", "river bank flooded"], count=2)
    assert senses.groups == [[0, 2], [1]]


def test_the_command_line_embeds_and_says_what_it_cannot(elmo):
    folder = str(elmo[1])
    done = CliRunner().invoke(app, ["embed", "river bank", "--layers", "0,1,2", "--json", "-m", folder])
    assert len(json.loads(done.stdout)["vector"]) == 32
    data = elmo[1].parent / "data.jsonl"
    data.write_text('{"words": ["a", "b"], "tags": ["O", "B-X"]}\n', encoding="utf-8")
    wrong = {
        ("tag", "a bank"): "has no 'tag'; it gives vectors: clearhead embed, clearhead senses",
        ("embed", "a bank", "--int8"): "has no 'quantise'; it gives vectors",
        ("embed", "a bank", "--layers", "3"): "layer 3 is not there; this model has layers 0 to 2",
        ("finetune", "tag", "--data", str(data), "--out", str(data.parent / "o")): "learns no task; clearhead embed",
    }
    for arguments, message in wrong.items():
        assert message in str(CliRunner().invoke(app, [*arguments, "-m", folder]).exception)


def language_model(kind: str) -> torch.nn.Module:
    if kind == "gpt2":
        config = Gpt2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=16)
        return Model.create(config, heads={"causal_lm": 40}).network
    return RECURRENT_FAMILIES[kind].network(RecurrentLMConfig(vocab_size=40, hidden_size=16, dropout=0.0))


@pytest.mark.parametrize("kind", ["rnnlm-lstm", "rnnlm-gru", "gpt2"])
def test_a_language_model_is_trained_by_the_same_loop(kind, tmp_path):
    class Counting(ToySource):
        def batch(self, index):
            batch = super().batch(index)
            return with_neighbours(type(batch)(batch.ids, batch.layout))

    torch.manual_seed(0)
    settings = Settings(steps=60, learning_rate=1e-2, every=EVERY)
    train(CausalLM(language_model(kind)), Counting(), settings, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["next/nll"] < rows[0]["next/nll"]
