"""Distilling a miniature: fewer layers by answers, another width by relations, and the command line over both."""

import json

import pytest
import torch
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.corpus import Corpus
from clearhead.errors import BadConfig, WrongTask
from clearhead.models.bert import BertConfig
from clearhead.models.distilbert import DistilBertConfig
from clearhead.training.recipes.distil import build, distil, recipe_for
from clearhead.training.recipes.pretrain import Masking, Pretrain, pretrain
from clearhead.training.settings import Every, Settings, override

SIZES = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
RUN = ["--device", "cpu", "--tensorboard", "--json"]
SHORT = {"tokens": 512, "length": 32, "masking.multiple": 1}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    things, colours = ["stone", "river", "house", "cloud"], ["red", "green", "blue", "black"]
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    rows = [f"The {t} is {c} and so the {c} {t} is a {t} ." for t, c in zip(things, colours, strict=True)]
    path.write_text("\n\n".join(" ".join(rows[(i + j) % 4] for j in range(4)) for i in range(200)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def teacher(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher") / "model"
    recipe = Pretrain(
        model=BertConfig(max_position_embeddings=64, **SIZES, **NO_DROPOUT),
        masking=Masking(),
        length=32,
        tokens=512,
        train=Settings(steps=160, learning_rate=4e-3, every=Every(save=10**6, evaluate=10**6)),
    )
    pretrain(Corpus(corpus), ch.train_tokenizer(corpus, vocabulary=100), folder, recipe)
    return folder


def planned(teacher, steps, **changes):
    lengths = {"train.minutes": None, "train.steps": steps, "train.accumulate": 1, "train.learning_rate": 1e-3}
    return override(recipe_for(teacher), {**SHORT, **lengths, **changes})


def last_figures(folder):
    return json.loads((folder / "run" / "metrics.jsonl").read_text().splitlines()[-1])


def test_a_student_comes_close_to_its_teacher(corpus, teacher, tmp_path):
    model = ch.load(teacher)
    for name, count in (("untrained", 1), ("trained", 60)):
        student, result = distil(model, Corpus(corpus), tmp_path / name, planned(model, count))
        assert (result.exit, result.step) == ("finished", count)
    before, after = (last_figures(tmp_path / name) for name in ("untrained", "trained"))
    for part in ("soft_targets", "cosine"):
        assert after[f"evaluation/{part}"] < 0.5 * before[f"evaluation/{part}"], part
    assert after["evaluation/masked_lm"] < before["evaluation/masked_lm"]
    assert after["evaluation/perplexity"] < 2
    again = ch.load(tmp_path / "trained")
    assert len(again.encoder.blocks) == 2
    pairs = zip(again.network.parameters(), student.network.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert "red" in str(again.fill("the stone is [MASK] and so the red stone is a stone .", top_k=1).to_dict())


def test_a_student_starts_from_alternate_layers_and_the_teacher_stays(teacher):
    model = ch.load(teacher)
    before = [weight.clone() for weight in model.network.parameters()]
    _, student = build(model, recipe_for(model))
    for layer, origin in enumerate([0, 3]):
        ours, theirs = student.encoder.blocks[layer], model.encoder.blocks[origin]
        assert torch.equal(ours.attention.qkv.weight, theirs.attention.qkv.weight)
    assert not any(weight.requires_grad for weight in model.network.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, model.network.parameters(), strict=True))


def test_relations_teach_a_narrower_student(corpus, teacher, tmp_path):
    model = ch.load(teacher)
    narrow = {
        "objective": "relations",
        "model.hidden_size": 16,
        "model.intermediate_size": 32,
        "train.learning_rate": 3e-3,
    }
    for name, count in (("untrained", 1), ("trained", 60)):
        distil(model, Corpus(corpus), tmp_path / name, planned(model, count, **narrow))
    before, after = (last_figures(tmp_path / name) for name in ("untrained", "trained"))
    for part in ("queries", "keys", "values"):
        assert after[f"evaluation/{part}"] < 0.8 * before[f"evaluation/{part}"], part
    again = ch.load(tmp_path / "trained")
    assert again.embed("the stone is red").shape == (16,)
    assert list(again.network.heads) == []


def test_relations_start_from_a_teacher_of_the_same_shapes(teacher):
    model = ch.load(teacher)
    _, student = build(model, planned(model, 1, objective="relations"))
    assert torch.equal(student.encoder.embeddings.token.weight, model.encoder.embeddings.token.weight)


def test_the_depth_is_found_in_every_family(tmp_path):
    for config in (BertConfig(**SIZES), DistilBertConfig(n_layers=5, n_heads=2, dim=16, hidden_dim=32)):
        model = ch.Model.create(config, heads={"masked_lm": config.vocab_size})
        assert recipe_for(model).model.num_hidden_layers == 2
        assert recipe_for(model, layers=3).model.num_hidden_layers == 3


def test_what_does_not_fit_is_refused_before_any_work(teacher):
    model = ch.load(teacher)
    with pytest.raises(BadConfig, match="a student of 5 layers does not fit its teacher; give it 1 to 4"):
        recipe_for(model, layers=5)
    with pytest.raises(BadConfig, match="sequences of 65 tokens do not fit the teacher's 64 positions"):
        build(model, override(recipe_for(model), {"length": 65}))
    with pytest.raises(BadConfig, match="relation_heads 5 must divide the student's width 48"):
        build(model, override(recipe_for(model), {"objective": "relations", "relation_heads": 5}))
    headless = ch.Model.create(BertConfig(**SIZES), model.tokenizer)
    with pytest.raises(WrongTask, match="the teacher has no masked-LM head, so it has no answers to learn from"):
        build(headless, recipe_for(headless))


@pytest.mark.parametrize("extra", [[], ["--relations", "--set", "model.hidden_size=16"]])
def test_the_command_line_distils(corpus, teacher, tmp_path, extra):
    out = tmp_path / "out"
    arguments = ["distil", "--teacher", str(teacher), "--corpus", str(corpus), "--out", str(out), "--steps", "2"]
    small = [part for name, value in SHORT.items() for part in ("--set", f"{name}={value}")]
    done = CliRunner().invoke(
        app, [*arguments, "--layers", "1", *small, *extra, "--device", "cpu", "--tensorboard", "--json"]
    )
    assert json.loads(done.stdout)["steps"] == 2, done.output
    assert ch.load(out).config.num_hidden_layers == 1
    assert any((out / "run" / "tensorboard").iterdir())
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"| teacher | {teacher} |" in card
    assert "| queries |" in card if extra else "| perplexity |" in card
