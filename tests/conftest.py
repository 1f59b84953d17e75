"""What several rooms' tests share: a small model with a tokenizer, and real weights."""

import os
from pathlib import Path
from shutil import copytree

import pytest
import torch
from hypothesis import settings

import clearhead as ch
from built_in import write_built_in, write_gpt, write_translator
from real_weights import minilm

# no test has a time limit; on CI the same examples are tried each time, so that a landing says what it tested
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Be alert! BERT will hurt!",
    "She went to the bank to get money, he sat on the bank of the river.",
    "If you don't want to inhale virus, wear a mask.",
]


@pytest.fixture(scope="session")
def model() -> ch.Model:
    """A small BERT with random weights and room for 64 tokens."""
    torch.manual_seed(0)
    tokenizer = ch.train_tokenizer(texts=SENTENCES, vocabulary=200, min_frequency=1)
    config = ch.BertConfig(
        vocab_size=tokenizer.vocabulary,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    heads = {"masked_lm": tokenizer.vocabulary, "next_sentence": 2}
    return ch.Model.create(config, tokenizer, heads=heads)


@pytest.fixture(scope="session")
def folder(model: ch.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, saved."""
    path = tmp_path_factory.mktemp("models") / "small"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the built-in model's, small and untrained."""
    path = tmp_path_factory.mktemp("box") / "encoder"
    tokenizer = ch.train_tokenizer(texts=SENTENCES, vocabulary=200, min_frequency=1)
    config = ch.ModernBertConfig(
        vocab_size=tokenizer.vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=128,
        global_attn_every_n_layers=1,
        pad_token_id=tokenizer.pad_id,
    )
    write_built_in(path, config, tokenizer)
    return path


@pytest.fixture
def built_in(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, in the place of the built-in models."""
    monkeypatch.setattr("clearhead.hub.remote.FOLDER", stand_in.parent)
    return stand_in


@pytest.fixture(scope="session")
def writing_box(stand_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of built-in models in which two write."""
    path = tmp_path_factory.mktemp("writing")
    copytree(stand_in, path / "encoder")
    write_translator(path / "translator")
    write_gpt(path / "gpt")
    return path


@pytest.fixture
def writers(writing_box: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """These, in the place of the built-in models."""
    monkeypatch.setattr("clearhead.hub.remote.FOLDER", writing_box)
    return writing_box


@pytest.fixture
def no_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of clearhead without its model."""
    monkeypatch.setattr("clearhead.hub.remote.FOLDER", tmp_path / "nowhere")


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of the real all-MiniLM-L6-v2."""
    return minilm()
