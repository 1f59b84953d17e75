"""What cannot be learnt, measured or set is refused before a run begins."""

import json
from dataclasses import replace
from shutil import copytree

import pytest

from clearhead.errors import BadConfig, BadInput
from clearhead.hub.weights import WEIGHTS
from clearhead.models.bert import BertConfig
from clearhead.pipelines.model import Model
from clearhead.training.monitor import read_rows
from clearhead.training.recipes.finetune import Finetune, finetune, first_look
from clearhead.training.recipes.task_specs import ObjectiveOptions
from clearhead.training.settings import Settings, override
from data.small import tokenizer

CLASSES = [{"text": text, "label": label} for text, label in (("a cat", "yes"), ("a man", "no"), ("a mat", "yes"))]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    folder = tmp_path_factory.mktemp("base") / "model"
    Model.create(BertConfig(max_position_embeddings=24, **sizes), tokenizer()).save(folder)
    return folder


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("classify", [{"text": "a cat"}]),
        ("label", [{"text": "a cat"}]),
        ("regress", [{"text": "a cat"}]),
        ("tag", [{"words": ["a", "cat"]}]),
        ("choose", [{"context": "a cat", "choices": ["sat", "ran"]}]),
    ],
)
def test_data_without_labels(base, tmp_path, kind, rows):
    data = write(tmp_path / "bare.jsonl", rows)
    with pytest.raises(BadInput, match=r"bare.jsonl has no right answers; give data with labels, or name their column"):
        finetune(kind, base, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_development_data_without_labels(base, tmp_path):
    train, dev = write(tmp_path / "train.jsonl", CLASSES), write(tmp_path / "dev.jsonl", [{"text": "a cat"}])
    with pytest.raises(BadInput, match=r"dev.jsonl has no right answers"):
        finetune("classify", base, train, tmp_path / "out", dev=dev)


def test_one_class_is_none(base, tmp_path):
    data = write(tmp_path / "one.jsonl", CLASSES[::2])
    with pytest.raises(BadInput, match="all examples have the label 'yes'; give data with two or more"):
        finetune("classify", base, data, tmp_path / "out")


def test_what_a_task_does_not_know(base, tmp_path):
    data = write(tmp_path / "scores.jsonl", [{"text": "a cat", "score": 1.0}])
    with pytest.raises(BadConfig, match=r"objective.class_weights is not for the task regress; leave it out"):
        finetune(
            "regress", base, data, tmp_path / "out", recipe=Finetune(objective=ObjectiveOptions(class_weights=True))
        )
    with pytest.raises(BadConfig, match=r"label_smoothing is a share in \[0, 1\), got 2"):
        ObjectiveOptions(label_smoothing=2)
    measured = Finetune(train=Settings(steps=2, metric="pearson"))
    with pytest.raises(BadConfig, match="metric 'pearson' is measured on development data; give --dev"):
        finetune("regress", base, data, tmp_path / "out", recipe=measured)


def test_a_metric_is_measured_after_each_epoch(base, tmp_path):
    data = write(tmp_path / "train.jsonl", CLASSES)
    changes = {"items": 2, "train.epochs": 9, "train.learning_rate": 1e-9}
    recipe = override(Finetune(), changes | {"train.metric": "accuracy", "train.patience": 2})
    outcome = finetune("classify", base, data, tmp_path / "out", dev=data, recipe=recipe)
    assert (outcome.result.exit, outcome.result.step) == ("stopped early", 6)  # of 18
    assert [row["step"] for row in read_rows(tmp_path / "out" / "run")] == [2, 4, 6]


def test_a_look_knows_how_long_inputs_may_be_and_needs_no_weights(base, tmp_path):
    data = write(tmp_path / "long.jsonl", [*CLASSES, {"text": "the cat sat on the mat " * 6, "label": "no"}])
    light = copytree(base, tmp_path / "light")
    (light / WEIGHTS).unlink()
    assert "1 inputs are longer than 24 tokens and will be cut" in str(first_look("classify", light, data))


def test_a_run_goes_on_with_the_recipe_and_data_it_began_with(base, tmp_path):
    data, recipe = write(tmp_path / "train.jsonl", CLASSES), Finetune(items=2, train=Settings(steps=1))
    finetune("classify", base, data, tmp_path / "out", recipe=recipe)
    message = (
        r"holds another run, which differs in items: 3 instead of 2\. Give what it began with, choose another folder"
    )
    with pytest.raises(BadConfig, match=message):
        finetune("classify", base, data, tmp_path / "out", recipe=replace(recipe, items=3))
    more = write(tmp_path / "more.jsonl", [*CLASSES, *CLASSES])
    with pytest.raises(
        BadConfig, match=r"the training data: .*more.jsonl \(6 examples\) instead of .*train.jsonl \(3 ex"
    ):
        finetune("classify", base, more, tmp_path / "out", recipe=recipe)
    assert finetune("classify", base, data, tmp_path / "out", recipe=recipe).result.exit == "finished"
