"""Folders with their matrices in int8, of every family that lies in the box: small, near, and the same words."""

import random
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open

import clearhead as ch
from clearhead.data.corpus import Corpus
from clearhead.hub.checkpoint import write_folder
from clearhead.hub.weights import SCALE, stored_type
from clearhead.models.gpt import Gpt2Config
from clearhead.models.transformer import TransformerConfig
from clearhead.training.recipes.language import pretrain_language, recipe_for
from clearhead.training.recipes.translate import Translate, translate
from clearhead.training.settings import NEVER, Every, Settings
from pipelines.writers import gpt_folder, translator

EVERY = Every(save=NEVER, evaluate=NEVER)
ORDER = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
THEIRS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def shrunk(model, folder):
    """The model as a folder in int8 gives it."""
    write_folder(model.checkpoint, folder, int8=True)
    assert stored_type(folder) == "int8"
    return ch.load(folder)


@pytest.mark.parametrize("family", ["bert", "gpt2", "transformer"])
def test_every_matrix_is_stored_once_and_comes_back_nearly(family, model, tmp_path):
    whole = {"bert": lambda: model, "gpt2": lambda: ch.load(gpt_folder()), "transformer": translator}[family]()
    small = shrunk(whole, tmp_path / "small")
    numbers = sum(one.numel() for one in whole.network.parameters())
    with safe_open(tmp_path / "small" / "model.safetensors", "pt") as file:
        stored = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    sizes = {name: torch.Size(one.get_shape()).numel() for name, one in stored.items() if not name.endswith(SCALE)}
    assert sum(sizes.values()) == numbers  # a shared matrix is written once
    for name, one in stored.items():
        shape = one.get_shape()
        large = len(shape) == 2 and shape[0] > 1 and sizes.get(name, 0) >= 1024
        assert (one.get_dtype() == "I8") == large, name
    for ours, theirs in zip(small.network.parameters(), whole.network.parameters(), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() <= theirs.abs().max() / 127
    heads = small.network.heads
    for head in ("masked_lm", "causal_lm"):
        if head in heads:
            assert heads[head].weight is small.encoder.embeddings.token.weight
    assert small.tokenizer.ids_batch(["The animal"]) == whole.tokenizer.ids_batch(["The animal"])


def test_a_bias_that_is_stored_as_a_row_keeps_its_numbers(tmp_path):
    model = ch.Model.create(
        TransformerConfig(
            vocab_size=1200,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            pad_token_id=0,
            eos_token_id=1,
        ),
        heads={"causal_lm": 1200},
    )
    bias = model.network.heads["causal_lm"].bias
    torch.nn.init.normal_(bias, std=3.0)
    write_folder(model.checkpoint, tmp_path / "small", int8=True)
    assert torch.equal(ch.load(tmp_path / "small").network.heads["causal_lm"].bias, bias)


def test_a_gpt_that_has_learnt_writes_the_same(tmp_path):
    text, draw = tmp_path / "text.txt", random.Random(0)
    starts = [draw.randrange(8) for _ in range(300)]
    text.write_text("\n\n".join(" ".join(ORDER[(i + n) % 8] for n in range(16)) for i in starts), "utf-8")
    words = ch.train_tokenizer(text, kind="gpt2", vocabulary=300)
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    shape = Gpt2Config(n_embd=48, n_layer=2, n_head=4, n_positions=64, **dropout)
    plan = recipe_for("gpt2")
    settings = Settings(steps=60, learning_rate=1e-2, every=EVERY)
    plan = replace(plan, model=shape, length=24, tokens=512, train=settings)
    whole, _ = pretrain_language(Corpus([text]), words, tmp_path / "run", plan)
    small = shrunk(whole, tmp_path / "small")
    prompts = ["one two three", "seven eight", "four"]
    said = [one.text for one in small.generate(prompts, max_new_tokens=8)]
    assert said == [one.text for one in whole.generate(prompts, max_new_tokens=8)]
    assert said[0].startswith(" four five six")


def test_a_translator_that_has_learnt_writes_the_same(tmp_path):
    draw = random.Random(0)
    rows = [draw.choices(range(8), k=draw.randint(2, 5)) for _ in range(800)]
    files = tmp_path / "train.de", tmp_path / "train.en"
    for file, names in zip(files, (THEIRS, ORDER), strict=True):
        file.write_text("\n".join(" ".join(names[i] for i in row) for row in rows), "utf-8")
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 96)
    shape = TransformerConfig(d_model=48, scale_embedding=True, dropout=0.0, pad_token_id=0, **sizes)
    settings = Settings(steps=150, learning_rate=1e-2, every=EVERY)
    plan = Translate(model=shape, tokenizer="word", tokens=512, label_smoothing=0.0, train=settings)
    translate("transformer-tiny", files, tmp_path / "run", recipe=plan)
    whole = ch.load(tmp_path / "run")
    small = shrunk(whole, tmp_path / "small")
    texts = ["eins zwei drei", "acht fünf", "vier vier sieben eins"]
    said = [one.text for one in small.translate(texts, num_beams=1)]
    assert said == [one.text for one in whole.translate(texts, num_beams=1)]
    assert said[0] == "one two three"
