"""Recipes of papers: the page says what the files say, and each trains a miniature and resumes to the bit."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.corpus import Corpus
from clearhead.data.rng import Phases
from clearhead.errors import BadConfig, BadInput, NotFound
from clearhead.models.bert import BertConfig
from clearhead.training import loop
from clearhead.training.checkpoint import TENSORS, checkpoints
from clearhead.training.recipes.pretrain import Masking, Pretrain, batches
from clearhead.training.recipes.published import FOLDER, find_recipe, recipe_names
from clearhead.training.recipes.run import tokenise_once
from clearhead.training.settings import Settings, override, read_recipe

PAGE = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text(encoding="utf-8")
BERT = ["hidden_size=32", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=64"]
PAIRS = ["early_length=16", "masking.most=8"]
SMALL = {
    "bert-2018": ([f"model.{one}" for one in BERT], PAIRS, 100),
    "roberta-2019": ([f"model.{one}" for one in BERT], [], 300),
    "albert-2019": ([f"model.{one}" for one in [*BERT, "embedding_size=16"]], ["masking.most=8"], 60),
    "electra-2020": ([f"model.{one}" for one in [*BERT, "embedding_size=16"]], [], 100),
    "t5-2019": (["model.d_model=32", "model.d_ff=64", "model.num_layers=1", "model.num_heads=2"], [], 150),
    "gpt2": (["model.n_embd=32", "model.n_layer=1", "model.n_head=2"], [], 300),
    "xlnet-2019": (["model.d_model=32", "model.n_layer=1", "model.n_head=2", "model.d_inner=64"], [], 60),
    "modern": ([f"model.{one}" for one in BERT], ["masking.multiple=1"], 100),
}
RUN = ["--device", "cpu", "--steps", "10", "--json"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    things, colours = ["stone", "river", "house", "cloud"], ["red", "green", "blue", "black"]
    rows = [f"The {t} is {c} and so the {c} {t} is a {t} ." for t, c in zip(things, colours, strict=True)]
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n\n".join(" ".join(rows[(i + j) % 4] for j in range(4)) for i in range(60)), encoding="utf-8")
    return path


def changed(*values):
    return [part for value in values for part in ("--set", value)]


def stated():
    """What the page says of each recipe: keys and values as they are written there."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    return {
        text.split("\n")[0]: dict(re.findall(r"^\| `(\S+)` \| `(.+?)` \|", text, re.MULTILINE)) for text in sections
    }


def test_the_page_says_what_the_files_say():
    said = stated()
    assert sorted(said) == recipe_names()
    for name, rows in said.items():
        held = read_recipe(FOLDER / f"{name}.toml")
        assert {key: float(value) if value == "inf" else json.loads(value) for key, value in rows.items()} == held, name


def test_every_recipe_is_named_where_users_look():
    help_text = CliRunner().invoke(app, ["pretrain", "--help"]).output
    for name in recipe_names():
        assert name in help_text or name == "distilbert-2019"
        assert name in PAGE


def test_modern_is_what_is_done_without_a_recipe():
    assert override(Pretrain(), find_recipe("modern").changes) == Pretrain()


def sized(name):
    """The options that make a recipe's model and batches small."""
    sizes, own, vocabulary = SMALL[name]
    small = ["length=32", "tokens=128", "train.accumulate=2", "train.every.save=3"]
    return ["--vocabulary", str(vocabulary), *changed(*sizes, *small, *own)]


def invoke(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def weights(folder):
    return (checkpoints(folder / "run")[-1] / TENSORS).read_bytes()


def broken_off(monkeypatch, *arguments):
    """Run a command that breaks off in its eighth step; those to come go on."""
    steps, update = [], loop.update

    def break_off(*given):
        steps.append(given)
        if len(steps) == 8:
            raise KeyError
        update(*given)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update", break_off)
        assert isinstance(invoke(*arguments).exception, KeyError)


@pytest.mark.parametrize("name", SMALL)
def test_each_trains_and_resumes_to_the_bit(name, corpus, tmp_path, monkeypatch):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    command = ["pretrain", "--recipe", name, "--corpus", corpus, *RUN, *sized(name)]
    done = invoke(*command, "--out", whole)
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 10, done.output
    broken_off(monkeypatch, *command, "--out", halves)
    assert [path.name for path in checkpoints(halves / "run")][-1] == "step-00000006"
    assert invoke(*command, "--out", halves).exit_code == 0
    assert weights(halves) == weights(whole)


def test_a_student_is_distilled_as_published(corpus, tmp_path, monkeypatch):
    teacher, whole, halves = tmp_path / "teacher", tmp_path / "whole", tmp_path / "halves"
    config = BertConfig(
        vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    words = ch.train_tokenizer(corpus, vocabulary=100)
    ch.Model.create(config, words, heads={"masked_lm": 128}).save(teacher)
    small = changed("length=32", "tokens=128", "train.accumulate=2", "train.every.save=3")
    command = ["distil", "--recipe", "distilbert-2019", "--teacher", teacher, "--corpus", corpus, *RUN, *small]
    assert invoke(*command, "--out", whole).exit_code == 0
    broken_off(monkeypatch, *command, "--out", halves)
    assert invoke(*command, "--out", halves).exit_code == 0
    assert weights(halves) == weights(whole)
    assert ch.load(whole).config.num_hidden_layers == 1


def test_berts_sequences_are_short_until_a_tenth_is_left(corpus, tmp_path):
    words = ch.train_tokenizer(corpus, vocabulary=100)
    shards = tokenise_once(Corpus(corpus), words, tmp_path)
    recipe = Pretrain(
        objective="masked+next",
        masking=Masking(most=8, duplicates=2),
        length=32,
        early_length=16,
        tokens=640,
        train=Settings(steps=10),
    )
    source = batches(recipe, words, shards, "train")
    assert isinstance(source, Phases)
    early, late = source.at(0.89).batch(0), source.at(0.9).batch(0)
    assert (max(early.layout.lengths), max(late.layout.lengths)) == (16, 32)
    assert early.tokens == pytest.approx(late.tokens / 2, rel=0.2)  # as many sequences
    assert early.layout.batch == pytest.approx(late.layout.batch, rel=0.2)
    for batch, most in ((early, 2), (late, 5)):  # 15 % of 13 and 29 tokens, or fewer
        within = torch.bucketize(batch.targets["where"], batch.layout.offsets[1:].long(), right=True)
        assert 1 <= within.bincount().max() <= most
    assert max(batches(recipe, words, shards, "validation").batch(0).layout.lengths) == 32
    with pytest.raises(BadConfig, match=r"early_length 32 must be shorter than length 32.*early_length=none has one"):
        replace(recipe, early_length=32)
    with pytest.raises(BadConfig, match=r"short is a share in \[0, 1\), got 1.5"):
        replace(recipe, short=1.5)


def test_a_cpu_takes_the_published_batch_in_smaller_parts():
    recipe = find_recipe("bert-2018")
    here, there = recipe.changes_for("cpu"), recipe.changes_for("cuda")
    assert there == recipe.changes
    assert (here["tokens"], here["train.accumulate"]) == (2048, 64)
    assert here["tokens"] * here["train.accumulate"] == there["tokens"] * there["train.accumulate"]
    assert not any(key.startswith("model.") for key in recipe.changes_for("cuda", new=False))


def test_a_recipe_is_shown_before_anything_is_spent(tmp_path):
    shown = invoke("pretrain", "--recipe", "bert-2018", "--steps", "500", "--dry-run")
    assert shown.exit_code == 0, shown.output
    first, *rest = shown.stdout.splitlines()
    assert (
        first
        == "# Bert, 131,072 tokens a step; a tokenizer of kind wordpiece with 30,000 tokens is trained on the corpus"
    )
    assert {"train.steps = 500", "early_length = 128", "masking.duplicates = 10"} <= set(rest)
    (tmp_path / "again.toml").write_text(shown.stdout, encoding="utf-8")
    again = invoke("pretrain", "--family", "bert", "--preset", "base", "--recipe", tmp_path / "again.toml", "--dry-run")
    assert again.stdout == shown.stdout
    record = json.loads(invoke("pretrain", "--recipe", "gpt2", "--dry-run", "--json").stdout)
    assert list(record) == ["model", "batch", "recipe", "tokenizer", "vocabulary"]
    assert (record["model"], record["tokenizer"], record["vocabulary"]) == ("Gpt2", "gpt2", 50257)
    assert record["recipe"]["train.schedule"] == "cosine"


def test_a_model_goes_on_as_a_paper_trained(corpus, tmp_path):
    words = ch.train_tokenizer(corpus, vocabulary=100)
    config = BertConfig(
        vocab_size=128, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    ch.Model.create(config, words, heads={"masked_lm": 128}).save(tmp_path / "bert")
    small = changed("length=32", "tokens=128", "train.accumulate=1", *PAIRS)
    command = ["pretrain", "--corpus", corpus, "--out", tmp_path / "out", "--model", tmp_path / "bert", *RUN, *small]
    assert invoke(*command, "--recipe", "bert-2018").exit_code == 0
    refused = invoke(*command, "--recipe", "roberta-2019")
    assert "--recipe roberta-2019 is for roberta, not for bert" in str(refused.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "--recipe", "bert-2017", "--dry-run"], "there is no recipe 'bert-2017': did you mean bert-2018?"),
        (["pretrain", "--recipe", "distilbert-2019", "--dry-run"], "distilbert-2019 is a recipe of clearhead distil"),
        (["pretrain", "--recipe", "gpt2", "--family", "bert", "--dry-run"], "--recipe gpt2 is for gpt2, not for bert"),
        (["pretrain", "--recipe", "gpt2"], "give --corpus and --out; without them, --dry-run shows the recipe"),
        (
            ["finetune", "classify", "--data", "x", "--out", "y", "--recipe", "gpt2"],
            "gpt2 is a recipe of clearhead pretrain",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    assert message in str(invoke(*arguments).exception)


def test_a_file_of_ones_own_may_say_what_it_begins_with(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('length = 64\n[recipe]\nfamily = "bert"\npreset = "tiny"\nvocabulary = 500\n', encoding="utf-8")
    record = json.loads(invoke("pretrain", "--recipe", path, "--dry-run", "--json").stdout)
    assert (record["model"], record["vocabulary"], record["recipe"]["length"]) == ("Bert", 500, 64)
    path.write_text("[recipe]\nfamilie = 'bert'\n", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"table \[recipe\]: unknown key 'familie'"):
        find_recipe(str(path))
    with pytest.raises(NotFound, match="there is no recipe"):
        find_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(BadInput, match="is a recipe of clearhead pretrain"):
        find_recipe("bert-2018").check_verb("distil")
