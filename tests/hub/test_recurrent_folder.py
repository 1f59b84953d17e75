"""Folders of recurrent models: read back bit for bit, and refused in one sentence when they are wrong."""

import json

import pytest
import torch

import clearhead as ch
from clearhead.errors import BadCheckpoint, BadConfig, NotFound
from clearhead.hub.checkpoint import Checkpoint, read_folder, recurrent_checkpoint, write_folder
from clearhead.hub.config import is_recurrent
from clearhead.models import RECURRENT_FAMILIES

SIZES = {"vocab_size": 12, "hidden_size": 8}
TOKENIZER = ch.train_tokenizer(texts=["a b c d e f g"], kind="word", min_frequency=1)


def model(kind: str) -> Checkpoint:
    torch.manual_seed(0)
    return recurrent_checkpoint(
        kind, RECURRENT_FAMILIES[kind].network(RECURRENT_FAMILIES[kind].config(**SIZES)), TOKENIZER
    )


@pytest.mark.parametrize("kind", RECURRENT_FAMILIES)
def test_what_is_saved_is_read_back(kind, tmp_path):
    saved = model(kind)
    write_folder(saved, tmp_path)
    loaded = read_folder(tmp_path)
    assert loaded.description.family == kind
    assert loaded.network.config == saved.network.config
    assert not loaded.network.training
    ours, theirs = saved.network.state_dict(), loaded.network.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert loaded.tokenizer.digest == TOKENIZER.digest
    assert is_recurrent(tmp_path)


def test_tied_matrices_stay_tied(tmp_path):
    write_folder(model("seq2seq-gru-dot"), tmp_path)
    network = read_folder(tmp_path).network
    assert network.output.weight is network.target.weight


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model_type": "lstm"}, BadConfig, "unknown model_type 'lstm'; clearhead reads albert, .*seq2seq-lstm"),
        ({"colour": 1}, BadConfig, "unknown key 'colour'; seq2seq-lstm knows bidirectional"),
        ({"dropout": 2.0}, BadConfig, "config.json: dropout must be from 0 up to"),
        ({"hidden_size": "8"}, BadConfig, "hidden_size = '8' is not of type int"),
        ({"hidden_size": 10}, BadCheckpoint, "config.json and the weights are from different models"),
        ({"model_type": "seq2seq-gru"}, BadCheckpoint, "config.json and the weights are from different models"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path, change, error, message):
    write_folder(model("seq2seq-lstm"), tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(error, match=message):
        read_folder(tmp_path)


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    write_folder(model("word2vec"), tmp_path)
    ch.train_tokenizer(texts=["a b c d e f g h i j"], kind="word", min_frequency=1).save(tmp_path)
    with pytest.raises(BadCheckpoint, match="the tokenizer has 15 tokens, the model has vectors for 12"):
        read_folder(tmp_path)


def test_other_folders_are_not_recurrent(tmp_path, folder):
    assert not is_recurrent(folder)
    assert not is_recurrent(tmp_path)
    with pytest.raises(NotFound, match=r"config\.json is not there"):
        read_folder(tmp_path)
