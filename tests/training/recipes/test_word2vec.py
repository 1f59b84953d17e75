"""Word vectors from text to neighbours, in Python and on the command line."""

import json
import random

import pytest
import torch
from typer.testing import CliRunner

from clearhead import train_tokenizer
from clearhead.cli import app
from clearhead.data.corpus import Corpus
from clearhead.errors import BadCheckpoint, BadInput, WrongTask
from clearhead.models.word2vec import Word2Vec, Word2VecConfig
from clearhead.objectives.language import negative_sampling
from clearhead.pipelines.word_vectors import WordVectors
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.word2vec import Vectors, train_vectors
from clearhead.training.settings import Every, Settings

TOPICS = {"river": ["water", "boat", "fish", "shore"], "money": ["loan", "coin", "cheque", "debt"]}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two topics; the words of one stand together, and "the" stands everywhere."""
    draw = random.Random(0)
    lines = []
    for _ in range(400):
        topic = draw.choice([[head, *rest] for head, rest in TOPICS.items()])
        lines.append(" ".join(word for _ in range(6) for word in (draw.choice(topic), "the")))
    path = tmp_path_factory.mktemp("topics") / "text.txt"
    path.write_text("\n\n".join(lines), encoding="utf-8")
    return path


def recipe(kind: str, **changes: object) -> Vectors:
    every = Every(log=10, save=10**6, evaluate=10**6)
    train = Settings(epochs=8.0, learning_rate=2e-2, weight_decay=0.0, every=every)
    return Vectors(kind=kind, model=Word2VecConfig(hidden_size=16), words=256, min_frequency=1, train=train, **changes)


@pytest.mark.parametrize("kind", ["cbow", "skipgram"])
def test_words_used_alike_are_neighbours(corpus, tmp_path, kind):
    vectors, result = train_vectors(Corpus(corpus), tmp_path, recipe(kind))
    assert result.exit == "finished"
    for head, rest in TOPICS.items():
        assert {word for word, _ in vectors.near(head, top_k=4)} == set(rest)
    again = WordVectors.load(tmp_path)
    assert again.near("River", top_k=3) == vectors.near("river", top_k=3)
    assert torch.equal(again.vector("money"), vectors.vector("money"))
    with pytest.raises(BadInput, match="'unheard' is none of the 16 words there are vectors for"):
        vectors.near("unheard")
    with pytest.raises(BadInput, match="top_k must be from 1 to 15, got 0"):
        vectors.near("river", top_k=0)


def test_few_words_have_as_few_neighbours():
    words = train_tokenizer(texts=["bank river money"], kind="word", vocabulary=8, min_frequency=1)
    vectors = WordVectors(Word2Vec(Word2VecConfig(vocab_size=words.vocabulary, hidden_size=4)), words)
    assert {word for word, _ in vectors.near("bank")} == {"river", "money"}


def test_a_word_of_two_senses_has_one_vector_among_the_neighbours_of_both(tmp_path):
    draw, path = random.Random(1), tmp_path / "banks.txt"
    topics = [[head, "bank", *rest] for head, rest in TOPICS.items()]
    path.write_text("\n\n".join(" ".join(draw.choices(draw.choice(topics), k=8)) for _ in range(400)), "utf-8")
    vectors, _ = train_vectors(Corpus(path), tmp_path / "out", recipe("skipgram"))
    near = {word for word, _ in vectors.near("bank", top_k=6)}
    assert all(near & {head, *rest} for head, rest in TOPICS.items())
    first, second = (vectors.vector(head) for head in TOPICS)
    between = [torch.cosine_similarity(vectors.vector("bank"), head, dim=0) for head in (first, second)]
    assert min(between) > torch.cosine_similarity(first, second, dim=0)


def test_negative_sampling_is_its_formula():
    logits = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0]])
    candidates = torch.tensor([[4, 5, 6], [7, 7, 8]])  # the second drew its true word
    loss = negative_sampling(logits, candidates)
    s = torch.sigmoid
    wanted = -(s(logits[0, 0]).log() + s(-logits[0, 1:]).log().sum() + s(logits[1, 0]).log() + s(-logits[1, 2]).log())
    torch.testing.assert_close(loss.total, wanted)
    assert loss.count == 2


def test_the_command_line_trains_and_finds(corpus, tmp_path):
    out = tmp_path / "vectors"
    small = ["--set", "model.hidden_size=8", "--set", "train.epochs=1", "--set", "min_frequency=1"]
    run = CliRunner().invoke(app, ["vectors", "train", str(corpus), "--out", str(out), "--kind", "cbow", *small])
    assert run.exit_code == 0, run.output
    assert f"16 words in {out}" in run.stdout
    card = (out / "README.md").read_text(encoding="utf-8")
    for part in ("`word2vec`", "WordVectors.load", 'kind = "cbow"\n', "It was not measured.", "```sh"):
        assert part in card
    found = CliRunner().invoke(app, ["vectors", "near", "river", "--model", str(out), "--top-k", "2", "--json"])
    assert len(json.loads(found.stdout)["near"]) == 2
    assert len(CliRunner().invoke(app, ["vectors", "near", "river", "--model", str(out)]).stdout.splitlines()) == 10
    lost = CliRunner().invoke(app, ["vectors", "near", "zebra", "--model", str(out)])
    assert isinstance(lost.exception, BadInput)


def test_a_run_that_is_interrupted_says_how_to_go_on(corpus, tmp_path, monkeypatch):
    stopped = TrainResult(exit="interrupted", step=3, tokens=90, elapsed=1.0, best=None, best_step=None)
    monkeypatch.setattr("clearhead.training.recipes.run.train", lambda *_, **__: stopped)
    run = CliRunner().invoke(app, ["vectors", "train", str(corpus), "--out", str(tmp_path)])
    assert run.exit_code == 130, run.output
    assert run.stdout == "interrupted after 3 steps: run the same command again to go on\n"


def test_a_folder_of_something_else_is_refused(tmp_path, corpus):
    train_vectors(Corpus(corpus), tmp_path, recipe("cbow"))
    config = tmp_path / "config.json"
    content = json.loads(config.read_text())
    config.write_text(json.dumps(content | {"hidden_size": 8}))
    with pytest.raises(BadCheckpoint, match=r"read.weight has shape \(16, 16\), config.json asks for \(16, 8\)"):
        WordVectors.load(tmp_path)
    config.write_text(json.dumps(content | {"model_type": "elmo"}))
    with pytest.raises((WrongTask, BadCheckpoint)):
        WordVectors.load(tmp_path)
