"""Checkpoint folders are read as they were written, by transformers and by us; recurrent models too."""

import json
import logging
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import clearhead as ch
from clearhead.decoding.decoder import as_decoder
from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, WrongTask
from clearhead.hub.checkpoint import Checkpoint, read_folder, read_outline, recurrent_checkpoint, write_folder
from clearhead.hub.config import NAMES, is_recurrent, read_config
from clearhead.hub.weights import WEIGHTS
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.gpt import Gpt2Config
from clearhead.models.t5 import T5Config
from clearhead.models.transformer import TransformerConfig
from clearhead.text import Tokenizer
from references import (
    EVERY_ARCHITECTURE,
    MODELS,
    PER_TOKEN,
    batch_for,
    our_answers,
    ours,
    randomised,
    save_theirs,
    their_answers,
    theirs,
)
from text.test_sentencepiece import write


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
    ch.train_tokenizer(texts=["a b c d e f g h i j"], kind="word", min_frequency=1).write_files(tmp_path)
    with pytest.raises(BadCheckpoint, match="the tokenizer has 15 tokens, the model has vectors for 12"):
        read_folder(tmp_path)


def test_other_folders_are_not_recurrent(tmp_path, folder):
    assert not is_recurrent(folder)
    assert not is_recurrent(tmp_path)
    with pytest.raises(NotFound, match=r"config\.json is not there"):
        read_folder(tmp_path)


# ---- models that write, in transformers: they read the ids that we read, and write the tokens that we write

TEXTS = ["A dog runs over the street.", "Ein Hund läuft über die Straße.", "Two men sit on a bank."]
NEW = 6


def words_of(kind):
    return ch.train_tokenizer(texts=TEXTS, kind=kind, vocabulary=400, min_frequency=1, lowercase=False)


def writer(family, kind):
    words = words_of(kind)
    torch.manual_seed(0)
    sizes = {"vocab_size": words.vocabulary}
    if family == "gpt2":
        ends = {"bos_token_id": words.sep_id, "eos_token_id": words.sep_id}
        config = Gpt2Config(**sizes, **ends, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    elif family == "t5":
        config = T5Config(**sizes, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    else:
        ends = {"pad_token_id": words.pad_id, "eos_token_id": words.sep_id}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
        inner = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64}
        config = TransformerConfig(**sizes, **ends, **heads, **inner, d_model=32, encoder_layers=2, decoder_layers=2)
    model = ch.Model.create(config, words, heads={"causal_lm": words.vocabulary})
    randomised(model.network, 1)
    return model


def assert_read_alike(model, folder):
    """Theirs, loaded by name alone, reads and writes what ours does."""
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    sourced = model.generator.sourced
    auto = transformers.AutoModelForSeq2SeqLM if sourced else transformers.AutoModelForCausalLM
    network = auto.from_pretrained(folder).eval()
    for text in TEXTS:
        read = theirs(text, return_tensors="pt")
        assert read["input_ids"][0].tolist() == model.generator.ids([text])[0]
        assert sorted(read) == ["attention_mask", "input_ids"]
        # Marian's configuration makes the last token that there is room for an end: one more than is compared
        plan = {"max_new_tokens": NEW + 1, "min_new_tokens": NEW, "do_sample": False}
        if sourced:  # which ours never does, and a trained model has no cause to do
            plan["suppress_tokens"] = [model.config.pad_token_id]
        written = network.generate(**read, **plan)[0].tolist()
        begun = 1 if sourced else read["input_ids"].shape[1]
        assert written[begun:][:NEW] == list(model.generate(text, max_new_tokens=NEW, min_new_tokens=NEW).tokens)
    return theirs


WRITERS = [
    ("gpt2", "gpt2"),
    ("gpt2", "wordpiece"),
    ("t5", "t5"),
    *(("marian", kind) for kind in ("bpe", "unigram", "wordpiece", "word")),
]


@pytest.mark.parametrize(("family", "kind"), WRITERS)
def test_transformers_reads_and_writes_what_we_do(family, kind, tmp_path):
    model = writer(family, kind)
    model.save(tmp_path)
    theirs = assert_read_alike(model, tmp_path)
    assert theirs.eos_token_id == model.config.eos_token_id
    assert theirs.bos_token_id == getattr(model.config, "bos_token_id", None)
    assert theirs.pad_token_id == model.config.pad_token_id or family == "gpt2"
    again = ch.load(tmp_path)
    assert again.generator.ids(TEXTS) == model.generator.ids(TEXTS)
    again.save(tmp_path / "again")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize(("family", "kind"), [("gpt2", "gpt2"), ("marian", "bpe")])
def test_a_folder_from_before_is_read_as_before_and_saved_aright(family, kind, tmp_path):
    """Older folders hold the tokenizer as it was trained: segments for GPT-2, <s> for a translator."""
    model = writer(family, kind)
    model.save(tmp_path / "old")
    model.tokenizer.write_files(tmp_path / "old")
    settings = json.loads((tmp_path / "old/tokenizer_config.json").read_text("utf-8"))
    settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (tmp_path / "old/tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    old = ch.load(tmp_path / "old")
    assert old.tokenizer.digest == model.tokenizer.digest
    assert old.generator.ids(TEXTS) == model.generator.ids(TEXTS)
    old.save(tmp_path / "new")
    assert_read_alike(old, tmp_path / "new")


def test_what_a_file_says_of_its_ends_is_kept(tmp_path):
    writer("gpt2", "gpt2").save(tmp_path)
    said = {"content": "<|endoftext|>", "lstrip": False, "normalized": True, "__type": "AddedToken"}
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": said, "eos_token": said, "add_prefix_space": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    model = ch.load(tmp_path)
    model.save(tmp_path / "again")
    after = json.loads((tmp_path / "again/tokenizer_config.json").read_text("utf-8"))
    assert settings.items() <= after.items()
    assert_read_alike(model, tmp_path / "again")


def test_a_tokenizer_of_another_model_keeps_its_template(tmp_path):
    model = writer("marian", "bpe")
    small = words_of("wordpiece")
    config = TransformerConfig(
        vocab_size=500, pad_token_id=0, eos_token_id=499, d_model=32, encoder_layers=1, decoder_layers=1
    )
    ch.Model.create(config, small, heads={"causal_lm": 500}).save(tmp_path)
    assert ch.Tokenizer.from_folder(tmp_path).template == small.template
    assert model.tokenizer.template.around_text == ((model.tokenizer.cls_id,), (model.tokenizer.sep_id,))


def test_a_tokenizer_that_tells_no_texts_apart_has_no_segments(tmp_path):
    words_of("gpt2").save(tmp_path)
    assert "token_type_ids" not in transformers.AutoTokenizer.from_pretrained(tmp_path).model_input_names
    shutil.rmtree(tmp_path)
    words_of("unigram").save(tmp_path)  # ALBERT's
    assert "token_type_ids" in transformers.AutoTokenizer.from_pretrained(tmp_path).model_input_names


def test_an_opus_mt_that_is_saved_again_needs_no_other_files(tmp_path):
    published = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "eng",
        "target_lang": "fra",
        "separate_vocabs": False,
    }
    words = Tokenizer(Tokenizer.from_folder(write(tmp_path))._library, published)
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    inner = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64}
    ends = {"pad_token_id": 13, "eos_token_id": 0}
    config = TransformerConfig(
        vocab_size=words.vocabulary, d_model=32, encoder_layers=1, decoder_layers=1, **ends, **heads, **inner
    )
    model = ch.Model.create(config, words, heads={"causal_lm": words.vocabulary})
    model.save(tmp_path / "saved")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert theirs(">>fra<< there the")["input_ids"] == model.generator.ids([">>fra<< there the"])[0]
    assert theirs.decode([2, 3, 0], skip_special_tokens=True) == model.tokenizer.decode([2, 3, 0])


@pytest.mark.parametrize(("family", "kind", "most"), [("gpt2", "gpt2", 64), ("t5", "t5", None)])
def test_a_long_text_is_cut_where_the_model_ends(family, kind, most, tmp_path):
    writer(family, kind).save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings.get("model_max_length") == most
    if most is not None:
        cut = transformers.AutoTokenizer.from_pretrained(tmp_path)(" ".join(40 * TEXTS), truncation=True)
        assert len(cut["input_ids"]) == most
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(settings | {"model_max_length": 32}))
    ch.load(tmp_path).save(tmp_path, overwrite=True)
    assert json.loads(file.read_text())["model_max_length"] == 32  # what a folder says of it is kept


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("family", "kind"), [("gpt2", "gpt2"), ("t5", "t5"), ("marian", "bpe")])
def test_a_model_is_read_in_half_precision(family, kind, dtype, tmp_path):
    model = writer(family, kind)
    model.save(tmp_path)
    half = ch.load(tmp_path, dtype=dtype).generator
    (whole,), (found,) = (first_logits(one) for one in (model.generator, half))
    assert found.dtype == dtype
    assert torch.cosine_similarity(whole, found.float(), dim=0) > 0.99


def first_logits(writing):
    with torch.inference_mode():
        return as_decoder(writing.module).begin(writing.ids(TEXTS[:1]))[0]
