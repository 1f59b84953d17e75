"""A saved model that writes, in transformers: it reads the ids that we read, and writes the tokens that we write."""

import json
import shutil

import pytest
import torch
import transformers

import clearhead as ch
from clearhead.decoding.decoder import as_decoder
from clearhead.models.gpt import Gpt2Config
from clearhead.models.t5 import T5Config
from clearhead.models.transformer import TransformerConfig
from clearhead.text import Tokenizer
from references import randomised
from text.test_sentencepiece import write

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
    model.tokenizer.save(tmp_path / "old")
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
    ch.load(tmp_path).save(tmp_path)
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
