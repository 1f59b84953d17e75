"""Pre-training of models that write or guess: each leaves the plateau, resumes exactly, and is saved for use."""

import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.corpus import Corpus
from clearhead.errors import BadConfig, BadInput
from clearhead.evaluation.perplexity import evaluate_texts
from clearhead.hub.config import read_config
from clearhead.models.gpt import Gpt2Config
from clearhead.models.rnnlm import RecurrentLMConfig
from clearhead.models.t5 import T5Config
from clearhead.models.xlnet import XLNetConfig
from clearhead.nn.layout import Packed, Padded
from clearhead.nn.memory import Memory
from clearhead.training.checkpoint import TENSORS, checkpoints
from clearhead.training.recipes.language import (
    FAMILIES,
    TASKS,
    batches,
    build,
    make_task,
    pretrain_language,
    recipe_for,
)
from clearhead.training.recipes.run import tokenise_once
from clearhead.training.settings import Every, Settings
from clearhead.training.step import split_batch
from clearhead.training.tasks.language import CausalLM, PermutationLM

SMALL = {
    "gpt2": Gpt2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "t5": T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, dropout_rate=0.0),
    "xlnet": XLNetConfig(d_model=32, n_layer=2, n_head=4, d_inner=64, dropout=0.0),
    "rnnlm-lstm": RecurrentLMConfig(hidden_size=48, num_hidden_layers=1, dropout=0.0),
}
SIZES = {"gpt2": 300, "t5": 150, "xlnet": 60, "rnnlm-lstm": 300}
THINGS = ["stone", "river", "house", "cloud", "horse", "table", "glass", "bread"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents that say one word again and again, so that every word is known from any other."""
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    documents = [" ".join([THINGS[i % 8]] * (12 + i % 5)) for i in range(400)]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizers(corpus):
    kinds = {kind.tokenizer: SIZES[family] for family, kind in FAMILIES.items() if family in SIZES}
    return {kind: ch.train_tokenizer(corpus, kind=kind, vocabulary=size) for kind, size in kinds.items()}


def recipe(family, steps):
    rate = 3e-2 if family.startswith("rnnlm") else 1e-2
    settings = Settings(steps=steps, learning_rate=rate, every=Every(log=5, save=3, evaluate=10**6))
    return replace(recipe_for(family), model=SMALL[family], length=24, tokens=384, train=settings)


def rows(folder):
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def weights(folder):
    return (checkpoints(folder / "run")[-1] / TENSORS).read_bytes()


@pytest.mark.parametrize("family", SMALL)
def test_the_loss_falls(family, corpus, tokenizers, tmp_path):
    """Frequencies alone leave log 8 = 2.1 for each word; who looks at the others knows."""
    words = tokenizers[FAMILIES[family].tokenizer]
    _, result = pretrain_language(Corpus(corpus), words, tmp_path, recipe(family, 130))
    assert result.exit == "finished"
    seen = rows(tmp_path)
    assert seen[0]["loss"] > 3
    assert seen[-1]["loss"] < 1.2
    assert seen[-1]["evaluation/perplexity"] < 3.5


@pytest.mark.parametrize("family", SMALL)
def test_a_stopped_run_ends_the_same(family, corpus, tokenizers, tmp_path, monkeypatch):
    words, plan = tokenizers[FAMILIES[family].tokenizer], recipe(family, 10)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    model, _ = pretrain_language(Corpus(corpus), words, whole, plan)
    kind = type(pretrain_task(family, model))
    losses, passes = kind.losses, []

    def break_off(task, batch):
        passes.append(batch)
        if len(passes) == 8:
            raise KeyError
        return losses(task, batch)

    monkeypatch.setattr(kind, "losses", break_off)
    with pytest.raises(KeyError):
        pretrain_language(Corpus(corpus), words, halves, plan)
    assert [path.name for path in checkpoints(halves / "run")][-1] == "step-00000006"
    monkeypatch.setattr(kind, "losses", losses)
    pretrain_language(Corpus(corpus), words, halves, plan)
    assert weights(halves) == weights(whole)


def pretrain_task(family, model):
    return TASKS[FAMILIES[family].objective](model.network)


def remembering(steps=1):
    return replace(recipe("xlnet", steps), length=8, tokens=96, memory=12, share=0.4)


def test_segments_are_read_in_turn_with_a_memory(corpus, tokenizers, tmp_path):
    words, plan = tokenizers["xlnet"], remembering()
    batch = batches(plan, words, tokenise_once(Corpus(corpus), words, tmp_path), "train").batch(2)
    assert batch.source.layout.lengths == (32, 32, 32)  # four sequences of eight each
    ranks = batch.source.targets["rank"].view(12, 8)
    assert [sorted(row[row > 0].tolist()) for row in ranks] == [list(range(1, int(row.max()) + 1)) for row in ranks]
    network = build(plan, words).network.eval()
    task = make_task(plan, network)
    with torch.no_grad():
        for parameter in network.parameters():  # fresh ones hardly look at one another
            parameter.mul_(5)
        total = 0.0
        for ids, rank, types in zip(
            *(part.view(3, 32) for part in (batch.source.ids, ranks, batch.source.segments)), strict=True
        ):
            memory = Memory(12)
            for start in range(0, 32, 8):
                one, order = ids[None, start : start + 8], rank[None, start : start + 8]
                where = order.flatten().nonzero().flatten()
                layout, asked = Padded.full(one), Packed.of([len(where)])
                hidden = network.encoder.guess(one, layout, order, where, asked, types[None, start : start + 8], memory)
                logits = network.heads["permutation_lm"](hidden, asked)
                total += float(torch.nn.functional.cross_entropy(logits, one[0, where], reduction="sum"))
        (loss,) = task.losses(batch).values()
        halves = [part for piece in split_batch(batch) for part in task.losses(piece).values()]
        forgetful = PermutationLM(network).losses(batch)["words"]
    torch.testing.assert_close(float(loss.total), total, atol=1e-3, rtol=1e-5)
    torch.testing.assert_close(sum(part.total for part in halves), loss.total)
    assert int(loss.count) == batch.tokens == int((ranks > 0).sum())
    assert float(forgetful.total) != pytest.approx(total, rel=1e-3)


def test_a_run_with_a_memory_resumes_to_the_bit_and_learns(corpus, tokenizers, tmp_path, monkeypatch):
    words, plan = tokenizers["xlnet"], remembering(60)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    pretrain_language(Corpus(corpus), words, whole, plan)
    seen = rows(whole)
    assert seen[-1]["loss"] < seen[0]["loss"] - 1
    read, passes = PermutationLM.losses, []

    def break_off(task, batch):
        passes.append(batch)
        if len(passes) == 20:
            raise KeyError
        return read(task, batch)

    with monkeypatch.context() as patch:
        patch.setattr(PermutationLM, "losses", break_off)
        with pytest.raises(KeyError):
            pretrain_language(Corpus(corpus), words, halves, plan)
    pretrain_language(Corpus(corpus), words, halves, plan)
    assert weights(halves) == weights(whole)


@pytest.mark.parametrize("memory", [None, 12])
def test_a_transformer_xl_reads_from_the_left(memory, corpus, tokenizers, tmp_path):
    """It learns to guess each word from those before it, across the cuts of a text, and is measured so."""
    words = tokenizers["xlnet"]
    plan = replace(recipe("xlnet", 60), length=8, tokens=96, memory=memory, left_to_right=True)
    batch = batches(plan, words, tokenise_once(Corpus(corpus), words, tmp_path / "shards"), "train").batch(0)
    rows_of = batch.source.layout.split(torch.arange(batch.source.tokens))
    places = batch.layout.split(batch.targets["place"])
    for row, place in zip(rows_of, places, strict=True):
        ids = batch.source.ids[row]
        expected = [i for i in range(len(ids)) if i % 8 and ids[i] not in (words.sep_id, words.cls_id)]
        assert place.tolist() == expected
        assert batch.source.targets["rank"][row].tolist() == [i % 8 + 1 for i in range(len(ids))]
    assert torch.equal(batch.ids, torch.cat([batch.source.ids[r][p] for r, p in zip(rows_of, places, strict=True)]))
    model, _ = pretrain_language(Corpus(corpus), words, tmp_path / "out", plan)
    seen = rows(tmp_path / "out")
    assert seen[-1]["loss"] < seen[0]["loss"] - 1
    text = "river river river river river river river river river river"
    found = evaluate_texts(model, [text], memory=memory or 0)
    assert found["perplexity"] < evaluate_texts(build(plan, words), [text], memory=memory or 0)["perplexity"] / 3


def test_only_permutations_remember(corpus, tokenizers, tmp_path):
    with pytest.raises(BadConfig, match="memory=4 is for the objective permutation, not for causal; leave it out"):
        pretrain_language(Corpus(corpus), tokenizers["gpt2"], tmp_path, replace(recipe("gpt2", 1), memory=4))
    with pytest.raises(BadConfig, match="left_to_right=True is for the objective permutation, not for spans"):
        make_task(replace(recipe("t5", 1), left_to_right=True), None)
    with pytest.raises(BadConfig, match="memory is a number of tokens, got 0; leave it out for none"):
        make_task(replace(remembering(), memory=0), None)


@pytest.mark.parametrize("family", SMALL)
def test_a_batch_cut_in_two_has_the_same_loss(family, corpus, tokenizers, tmp_path):
    words, plan = tokenizers[FAMILIES[family].tokenizer], recipe(family, 1)
    shards = tokenise_once(Corpus(corpus), words, tmp_path)
    batch = batches(plan, words, shards, "train").batch(3)
    task = TASKS[plan.objective](build(plan, words).network)
    with torch.no_grad():
        (whole,) = task.losses(batch).values()
        parts = [loss for part in split_batch(batch) for loss in task.losses(part).values()]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total)
    assert sum(int(part.count) for part in parts) == int(whole.count) == sum(task.counts(batch).values())


def test_a_gpt_writes_on_and_can_be_trained_further(corpus, tokenizers, tmp_path):
    words = tokenizers["gpt2"]
    plan = recipe("gpt2", 60)
    first, _ = pretrain_language(Corpus(corpus), words, tmp_path / "first", plan)
    again = ch.load(tmp_path / "first")
    assert again.generate("river river river", max_new_tokens=3).text == " river river river"
    assert "gpt2" in (tmp_path / "first" / "README.md").read_text()
    assert again.config.eos_token_id == words.sep_id
    one_more = replace(plan, train=replace(plan.train, steps=1))
    more, _ = pretrain_language(Corpus(corpus), words, tmp_path / "second", one_more, start=tmp_path / "first")
    assert rows(tmp_path / "second")[0]["loss"] < rows(tmp_path / "first")[0]["loss"] - 1
    assert more.parameters == first.parameters
    other = ch.train_tokenizer(texts=["other words"] * 3, kind="gpt2", vocabulary=300)
    with pytest.raises(BadConfig, match="has another tokenizer"):
        pretrain_language(Corpus(corpus), other, tmp_path / "third", one_more, start=tmp_path / "first")


def test_families_and_objectives_choose_one_another():
    assert recipe_for(objective="spans").family == "t5"
    assert recipe_for(objective="permutation").family == "xlnet"
    assert recipe_for("rnnlm-gru").objective == "causal"
    assert recipe_for("gpt2", "small").model.n_layer == 12
    assert recipe_for("gpt2").model.resid_pdrop == 0
    with pytest.raises(BadConfig, match="t5 learns by 'spans', not by 'causal'; leave the objective out"):
        recipe_for("t5", objective="causal")
    with pytest.raises(BadConfig, match="'bert' does not learn by 'causal'; choose one of gpt2, t5, xlnet"):
        recipe_for("bert", objective="causal")
    with pytest.raises(BadConfig, match="gpt2 has no preset 'huge'; choose one of mini, small"):
        recipe_for("gpt2", "huge")


def test_a_network_without_the_head_is_refused():
    model = ch.Model.create(SMALL["xlnet"], heads={"classes": 2})
    with pytest.raises(ch.errors.WrongTask, match="has no head 'permutation_lm' to train"):
        pretrain_task("xlnet", model)
    assert isinstance(pretrain_task("gpt2", model), CausalLM)


@pytest.mark.parametrize(
    ("options", "sizes", "kind"),
    [
        (["--objective", "causal"], {"n_embd": 32, "n_head": 2, "n_layer": 1}, "gpt2"),
        (["--objective", "spans"], {"d_model": 32, "num_heads": 2, "num_layers": 1}, "t5"),
        (["--family", "xlnet"], {"d_model": 32, "n_head": 2, "n_layer": 1, "d_inner": 32}, "xlnet"),
        (["--family", "rnnlm-gru"], {"hidden_size": 32}, "rnnlm-gru"),
    ],
)
def test_the_command_line(options, sizes, kind, corpus, tmp_path):
    out = tmp_path / "model"
    sets = [f"model.{name}={value}" for name, value in sizes.items()] + ["length=32", "tokens=128"]
    arguments = ["pretrain", "--corpus", str(corpus), "--out", str(out), *options, "--steps", "2"]
    arguments += ["--vocabulary", "330", "--json", "--device", "cpu"]
    done = CliRunner().invoke(app, [*arguments, *(word for one in sets for word in ("--set", one))])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["steps"] == 2
    assert json.loads((out / "config.json").read_text())["model_type"] == kind
    if kind == "rnnlm-gru":
        assert read_config(out).config.hidden_size == 32
        card = (out / "README.md").read_text(encoding="utf-8")
        for part in ('pipeline_tag: "text-generation"', "| perplexity |", "```sh", 'family = "rnnlm-gru"\n'):
            assert part in card
        more = ["pretrain", "--corpus", str(corpus), "--out", str(tmp_path / "more"), "--model", str(out)]
        more += ["--steps", "1", "--json", "--set", "length=32", "--set", "tokens=128", "--device", "cpu"]
        for option, value in (("--family", "t5"), ("--preset", "mini"), ("--vocabulary", "99")):
            wrong = CliRunner().invoke(app, [*more, option, value])
            assert isinstance(wrong.exception, BadInput)
            assert f"{option} {value} is for a new" in str(wrong.exception)
        wrong = CliRunner().invoke(app, [*more, "--set", "model.hidden_size=64"])
        assert isinstance(wrong.exception, BadInput)
        assert "--set model.… is for a new model" in str(wrong.exception)
        assert not (tmp_path / "more").exists()
        more += ["--family", kind]  # its own
        done = CliRunner().invoke(app, more)
        assert done.exit_code == 0, done.output
