"""A GPT learns to translate: it reads the source and a new line, and only the target has a loss."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.encode import encode_instructions
from clearhead.data.examples import PairExample
from clearhead.errors import BadConfig, BadInput, NotFound, WrongTask
from clearhead.models.gpt import Gpt2Config
from clearhead.pipelines.translation import translate_texts
from clearhead.serve.registry import model_uses
from clearhead.training.recipes.translate import Translate, first_look, prepare, recipe_for, translate
from clearhead.training.settings import Every, Settings

WORDS = {"hund": "dog", "katze": "cat", "vogel": "bird", "bellt": "barks", "schläft": "sleeps", "singt": "sings"}
PAIRS = [
    (f"ein guter {one} {does}", f"a good {WORDS[one]} {WORDS[does]}")
    for one in ("hund", "katze", "vogel")
    for does in ("bellt", "schläft", "singt")
]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for place, name in enumerate(("de", "en")):
        (folder / name).write_text("".join(pair[place] + "\n" for pair in PAIRS), encoding="utf-8")
    return [folder / "de", folder / "en"]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    words = ch.train_tokenizer(texts=[f"{a}\n{b}" for a, b in PAIRS], kind="gpt2", vocabulary=330, min_frequency=1)
    torch.manual_seed(0)
    size, end = words.vocabulary, words.sep_id
    config = Gpt2Config(
        vocab_size=size,
        n_embd=48,
        n_layer=2,
        n_head=4,
        n_positions=48,
        bos_token_id=end,
        eos_token_id=end,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
    )
    folder = tmp_path_factory.mktemp("gpt")
    ch.Model.create(config, words, heads={"causal_lm": size}).save(folder)
    return folder


def recipe(steps: int) -> Translate:
    every = Every(log=50, save=10**6, evaluate=10**6)
    settings = Settings(steps=steps, learning_rate=5e-3, every=every)
    return Translate(model=None, length=24, tokens=512, label_smoothing=0.0, train=settings)


@pytest.fixture(scope="module")
def tuned(gpt, files, tmp_path_factory):
    out = tmp_path_factory.mktemp("tuned") / "model"
    return translate(gpt, files, out, dev=files, recipe=recipe(120)), out


def test_it_learns_translates_and_is_measured(tuned, files):
    outcome, out = tuned
    assert outcome.metrics["bleu"] == pytest.approx(100)
    assert outcome.metrics["accuracy"] == 100
    model = ch.load(out)
    assert model.translation_suffix == "\n"
    for source, target in PAIRS:
        assert model.translate(source).text == target
    several = model.translate("Ein guter hund bellt. Ein guter vogel singt.", num_beams=1)
    assert [part.source for part in several.parts] == ["Ein guter hund bellt.", "Ein guter vogel singt."]
    ways = model.translate(PAIRS[0][0], num_beams=3, num_return_sequences=2)
    assert [one.text == PAIRS[0][1] for one in ways] == [True, False]
    assert "translate" in model_uses(model)
    written = translate_texts(model.network, model.tokenizer, [PAIRS[2][0]], suffix=model.translation_suffix)
    assert written == [PAIRS[2][1]]


def test_only_the_target_is_learnt(gpt, files):
    model = prepare(gpt, (), recipe(1))
    encoded = encode_instructions([PairExample(*PAIRS[0])], model.tokenizer, length=48)
    learnt = encoded.batch(np.array([0])).targets["next"]
    assert model.tokenizer.decode(learnt[learnt != IGNORE_INDEX].tolist()).strip() == PAIRS[0][1]


def test_a_gpt_that_learnt_nothing_of_it_does_not_translate(gpt, files):
    model = ch.load(gpt)
    assert model.translation_suffix == ""
    assert "translate" not in model_uses(model)
    with pytest.raises(WrongTask, match="reads no source; it can generate, but not translate or summarise"):
        model.translate("ein hund")
    assert len(first_look(gpt, files)["train"]) == len(PAIRS)
    with pytest.raises(BadInput, match=r"agreement=5.0 is for models that read a source beside what they write"):
        translate(gpt, files, gpt.parent / "none", recipe=Translate(model=None, agreement=5.0))


def test_a_new_gpt_is_made_and_learns(files, tmp_path):
    plan = recipe_for("gpt-mini")
    assert plan.tokenizer == "gpt2"
    sizes = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 48, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    small = replace(
        plan, model=replace(plan.model, **sizes), vocabulary=330, length=24, tokens=512, train=recipe(120).train
    )
    outcome = translate("gpt-mini", files, tmp_path / "new", dev=files, recipe=replace(small, label_smoothing=0.0))
    assert outcome.metrics["bleu"] == pytest.approx(100)
    assert ch.load(tmp_path / "new").translate(PAIRS[1][0]).text == PAIRS[1][1]
    wrong = {
        "directions": (("de-en",), "directions=.* are for models that read a source beside what they write"),
        "tokenizer": ("bpe", "a GPT has a tokenizer of kind gpt2, not bpe; leave it out"),
    }
    for name, (value, message) in wrong.items():
        with pytest.raises(BadConfig, match=message):
            translate("gpt-mini", files, tmp_path / "other", recipe=replace(small, **{name: value}))
    with pytest.raises(NotFound, match="did you mean gpt-mini"):
        recipe_for("gpt-mni")


def test_long_sources_leave_room_for_what_is_written(tuned):
    model = ch.load(tuned[1])
    long = " ".join(["ein guter hund bellt"] * 30)
    found = model.translate(long, num_beams=1)
    assert len(found.parts) > 1
    assert all(len(model.tokenizer.ids_batch([part.source])[0]) <= 24 for part in found.parts)


def test_the_command_line(gpt, files, tmp_path):
    both = [str(file) for file in files]
    small = ["--set", "train.epochs=2", "--set", "length=24", "--device", "cpu", "--json"]
    command = ["finetune", "translation", "--data", *both, "--dev", *both, "--model", str(gpt), *small]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out")])
    figures = json.loads(done.stdout.splitlines()[-1])["figures"]
    assert list(figures) == ["perplexity", "accuracy", "bleu"]
    measure = ["evaluate", "translation", "--data", *both, "--model", str(tmp_path / "out"), "--json"]
    assert {"bleu", "chrf"} <= json.loads(CliRunner().invoke(app, measure).stdout).keys()
    said = CliRunner().invoke(app, ["translate", PAIRS[0][0], "--model", str(tmp_path / "out"), "--json"])
    assert list(json.loads(said.stdout)) == ["source", "translation", "parts"]
