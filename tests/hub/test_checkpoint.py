"""Checkpoint folders are read as they were written, by transformers and by us; recurrent models too."""

import json
import logging

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import clearhead as ch
from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, WrongTask
from clearhead.hub.checkpoint import Checkpoint, read_folder, read_outline, recurrent_checkpoint, write_folder
from clearhead.hub.config import NAMES, is_recurrent, read_config
from clearhead.hub.weights import WEIGHTS
from clearhead.models import RECURRENT_FAMILIES
from references import (
    EVERY_ARCHITECTURE,
    MODELS,
    PER_TOKEN,
    batch_for,
    our_answers,
    ours,
    save_theirs,
    their_answers,
    theirs,
)


@pytest.mark.parametrize(("model", "architecture"), EVERY_ARCHITECTURE)
def test_transformers_reads_what_we_write(model, architecture, tmp_path):
    checkpoint, batch = ours(model, architecture), batch_for(model)
    write_folder(checkpoint, tmp_path)
    read = getattr(transformers, architecture).from_pretrained
    reference, gaps = read(tmp_path, output_loading_info=True, local_files_only=True)
    assert not any(gaps.values()), gaps
    got = our_answers(checkpoint.network, model, batch, packed=True)
    for name, logits in their_answers(reference.eval(), model, architecture, batch).items():
        wanted = logits[batch.keep] if name in PER_TOKEN else logits
        assert_close(got[name], wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("model", "architecture"), EVERY_ARCHITECTURE)
def test_we_read_what_we_write(model, architecture, tmp_path):
    checkpoint = ours(model, architecture)
    write_folder(checkpoint, tmp_path / "once")
    again = read_folder(tmp_path / "once")
    before, after = (dict(c.network.named_parameters()) for c in (checkpoint, again))
    # a pooler that several heads share may go by another of its names
    assert sum(p.numel() for p in before.values()) == sum(p.numel() for p in after.values())
    assert all(torch.equal(after[name], before[name]) for name in before.keys() & after.keys())
    assert again.description.config == checkpoint.description.config
    assert again.description.architecture == architecture
    write_folder(again, tmp_path / "twice")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


@pytest.mark.parametrize("model", MODELS)
def test_an_outline_knows_all_sizes_without_the_weights(model, tmp_path):
    whole = ours(model, next(iter(NAMES[MODELS[model][0]].architectures)))
    write_folder(whole, tmp_path)
    (tmp_path / WEIGHTS).unlink()
    outline = read_outline(tmp_path)
    assert outline.description.config == whole.description.config
    assert outline.network.encoder.max_length == whole.network.encoder.max_length
    assert all(tensor.is_meta for tensor in outline.network.state_dict().values())


def test_the_configuration_that_transformers_wrote_is_kept(tmp_path):
    """Keys that we do not use come back out, so that nothing is lost on the way through clearhead."""
    labels = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
    config = transformers.ElectraConfig(**MODELS["electra"][1], **labels, summary_last_dropout=0.3)
    save_theirs(transformers.ElectraForSequenceClassification(config), tmp_path / "theirs")
    write_folder(read_folder(tmp_path / "theirs"), tmp_path / "ours")
    before, after = (transformers.ElectraConfig.from_pretrained(tmp_path / name) for name in ("theirs", "ours"))
    assert after.to_dict() | {"transformers_version": 0} == before.to_dict() | {"transformers_version": 0}


# config.json of answerdotai/ModernBERT-base, as transformers 4 wrote it, but for the sizes
PUBLISHED_MODERNBERT = {
    "architectures": ["ModernBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 1234.0,
    "hidden_activation": "gelu",
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-05,
    "local_rope_theta": 56.0,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "position_embedding_type": "absolute",
    "torch_dtype": "float32",
    "transformers_version": "4.47.0.dev0",
    **MODELS["modernbert"][1],
}


def test_modernbert_as_it_was_published(tmp_path):
    model, architecture, batch = "modernbert", "ModernBertForMaskedLM", batch_for("modernbert")
    save_theirs(theirs(model, architecture), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED_MODERNBERT))
    reference = transformers.ModernBertForMaskedLM.from_pretrained(tmp_path).eval()
    checkpoint = read_folder(tmp_path)
    config = checkpoint.description.config
    assert (config.global_attn_every_n_layers, config.global_rope_theta, config.local_rope_theta) == (2, 1234.0, 56.0)
    wanted = their_answers(reference, model, architecture, batch)["masked_lm"][batch.keep]
    got = our_answers(checkpoint.network, model, batch, packed=True)["masked_lm"]
    assert_close(got, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 2}, "layer_types .* is not supported"),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types .* is not supported"),
        ({"layer_types": "full_attention"}, "layer_types must list a kind for each of 4 layers"),
        ({"layer_types": ["full_attention"]}, "layer_types must list a kind for each of 4 layers"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type 'yarn' is not supported"),
        ({"rope_parameters": {"full_attention": 10000.0}}, "rope_parameters must name each kind of layer"),
        ({"rope_parameters": {"full_attention": {"rope_theta": "much"}}}, "global_rope_theta = 'much' is not of type"),
    ],
)
def test_modernbert_layers_that_we_do_not_have(change, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED_MODERNBERT | change))
    with pytest.raises(BadConfig, match=message):
        read_config(tmp_path)


def test_names_as_converted_from_tensorflow(tmp_path):
    """The first published BERT files spell a norm's weight and bias as gamma and beta, and keep a position table."""
    reference, batch = theirs("bert", "BertForMaskedLM"), batch_for("bert")
    save_theirs(reference, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    old["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    save_file(old, tmp_path / "model.safetensors", metadata={"format": "pt"})
    got = our_answers(read_folder(tmp_path).network, "bert", batch, packed=True)["masked_lm"]
    wanted = their_answers(reference, "bert", "BertForMaskedLM", batch)["masked_lm"][batch.keep]
    assert_close(got, wanted, atol=1e-5, rtol=1e-5)
    old["cls.predictions.decoder.weight"][0, 0] += 1
    save_file(old, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadCheckpoint, match=r"cls\.predictions\.decoder\.weight differs from bert\.embeddings"):
        read_folder(tmp_path)


def test_a_head_that_nobody_knows_is_left_aside_aloud(tmp_path, caplog):
    save_theirs(theirs("bert", "BertModel"), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    named = {f"bert.{name}": tensor for name, tensor in tensors.items()} | {"emotion.weight": torch.ones(2)}
    save_file(named, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with caplog.at_level(logging.WARNING, "clearhead"):
        assert set(read_folder(tmp_path).network.heads) == {"pooled"}
    assert "left aside: emotion.weight" in caplog.text


def test_one_matrix_stays_one_matrix(tmp_path):
    write_folder(ours("albert", "AlbertForMaskedLM"), tmp_path)
    network = read_folder(tmp_path).network
    assert network.heads["masked_lm"].weight is network.encoder.embeddings.token.weight
    assert len(set(network.encoder.blocks)) == len(network.encoder.groups) == 1


def test_sixteen_bits(tmp_path):
    write_folder(ours("modernbert", "ModernBertForMaskedLM"), tmp_path / "whole")
    half = read_folder(tmp_path / "whole", torch.bfloat16)
    assert {p.dtype for p in half.network.parameters()} == {torch.bfloat16}
    write_folder(half, tmp_path / "half")
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"
    got = our_answers(half.network, "modernbert", batch_for("modernbert"), packed=True)["hidden"]
    wanted = our_answers(read_folder(tmp_path / "whole").network, "modernbert", batch_for("modernbert"), packed=True)
    assert_close(got.float(), wanted["hidden"], atol=0.1, rtol=0.1)


def test_the_heads_to_write_are_named(tmp_path):
    checkpoint = ours("bert", "BertForPreTraining")
    write_folder(checkpoint, tmp_path, heads=["masked_lm"])
    assert read_folder(tmp_path).description.architecture == "BertForMaskedLM"
    with pytest.raises(WrongTask, match="no head 'span' to save; it has masked_lm, next_sentence"):
        write_folder(checkpoint, tmp_path, heads=["span"])
    checkpoint.network.heads.update(ours("bert", "BertForTokenClassification").network.heads)
    with pytest.raises(BadInput, match=r"no Hugging Face architecture holds the heads .*; name heads to save: "):
        write_folder(checkpoint, tmp_path)


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
