"""A head on a frozen encoder: features are computed once, and what was learnt is a model as any other."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadCheckpoint, BadConfig, BadInput, WrongTask
from clearhead.hub.features import DESCRIPTION, TENSORS
from clearhead.hub.skills import encoder_digest
from clearhead.inside import why
from clearhead.models.bert import BertConfig
from clearhead.pipelines.model import Model, load
from clearhead.training.recipes import frozen as recipes
from clearhead.training.recipes.finetune import feature_extraction, finetune, learning_rates
from clearhead.training.settings import override
from data.small import tokenizer

CLASSES = [
    {"text": text, "label": label} for text, label in (("a cat", "yes"), ("the man ran", "no"), ("a mat", "yes"))
]
TAGGED = [
    {"words": ["Peter", "sat", "on", "the", "mat"], "tags": ["B-PER", "O", "O", "O", "O"]},
    {"words": ["the", "cat", "went", "to", "Brussels"], "tags": ["O", "O", "O", "O", "B-LOC"]},
]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    folder = tmp_path_factory.mktemp("base") / "model"
    torch.manual_seed(0)
    Model.create(BertConfig(max_position_embeddings=24, **sizes), tokenizer()).save(folder)
    return folder


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def plan(**changes):
    short = {"train.epochs": None, "train.steps": 40, "train.learning_rate": 3e-2, "dropout": 0.0}
    return override(feature_extraction(), short | {f"frozen.{name}": value for name, value in changes.items()})


# the lectures' six rows
ROWS = [
    {"layers": [0]},
    {"layers": [-1]},
    {"layers": [-2]},
    {"layers": [-4, -3, -2, -1], "combine": "weighted"},
    {"layers": [-4, -3, -2, -1], "combine": "concat"},
    {"layers": [1, 2, 3, 4], "combine": "weighted"},
]


@pytest.mark.parametrize("row", [*ROWS, {"lstm": 5}, {"lstm": 5, "combine": "concat"}])
def test_a_tagger_learns_and_is_read_again(base, tmp_path, row):
    data = write(tmp_path / "train.jsonl", TAGGED)
    made = finetune("tag", base, data, tmp_path / "out", dev=data, recipe=plan(**row))
    assert made.metrics["accuracy"] == 100
    assert encoder_digest(made.model.encoder) == encoder_digest(load(base).encoder)
    texts = ["Peter sat on the mat", "the cat went to Brussels, and a man"]
    again = load(tmp_path / "out")
    assert [one.to_dict() for one in again.tag(texts)] == [one.to_dict() for one in made.model.tag(texts)]
    again.save(tmp_path / "copy")
    for name in (DESCRIPTION, TENSORS):
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


@pytest.mark.parametrize("row", [{}, {"pooling": "max"}, {"lstm": 5}])
def test_classes_are_learnt(base, tmp_path, row):
    data = write(tmp_path / "train.jsonl", CLASSES)
    made = finetune("classify", base, data, tmp_path / "out", dev=data, recipe=plan(**row))
    assert made.metrics["accuracy"] == 100
    assert [load(tmp_path / "out").classify(one["text"]).label for one in CLASSES] == ["yes", "no", "yes"]


def test_numbers_and_several_classes_are_learnt_too(base, tmp_path):
    several = write(
        tmp_path / "several.jsonl", [{"text": "a cat", "labels": ["a", "b"]}, {"text": "a man", "labels": []}]
    )
    finetune("label", base, several, tmp_path / "label", recipe=plan())
    scores = load(tmp_path / "label").classify("a cat").scores
    assert min(scores.values()) > 0.5
    numbers = write(tmp_path / "numbers.jsonl", [{"text": "a cat", "score": 4.0}, {"text": "a man", "score": 1.0}])
    finetune("regress", base, numbers, tmp_path / "regress", recipe=plan())
    more, less = load(tmp_path / "regress").classify(["a cat", "a man"])
    assert more.score > less.score + 0.5


def test_the_encoder_reads_the_data_once(base, tmp_path, monkeypatch):
    data, calls = write(tmp_path / "train.jsonl", TAGGED), []
    whole = recipes._compute
    monkeypatch.setattr(recipes, "_compute", lambda *given: calls.append(1) or whole(*given))
    file, told = tmp_path / "features.npy", []
    for seed in range(2):
        recipe = plan()
        recipe = replace(recipe, train=replace(recipe.train, seed=seed))
        finetune("tag", base, data, tmp_path / f"{seed}", recipe=recipe, features=file, progress=told.append)
    tokens = len(np.load(file))
    assert (len(calls), sum(told)) == (1, tokens)
    finetune("tag", base, data, tmp_path / "other", recipe=plan(layers=[0]), features=file)
    assert len(calls) == 2, "other layers are other features"


def test_folds_have_features_of_their_own(base, tmp_path):
    data = write(tmp_path / "train.jsonl", [{"text": f"a {word}", "label": word} for word in ("cat", "man") * 4])
    tokens = []
    for fold in range(2):
        made = finetune("classify", base, data, tmp_path / f"{fold}", recipe=plan(), fold=(fold, 2))
        assert made.metrics["accuracy"] == 100
        tokens.append(len(np.load(tmp_path / f"{fold}" / "run" / recipes.FEATURES)))
    assert tokens == [16, 16], "half of eight texts of four tokens"


def test_a_student_on_features_learns_from_a_teacher(base, tmp_path):
    data = write(tmp_path / "train.jsonl", CLASSES)
    turned = {"yes": "no", "no": "yes"}
    wrong = write(tmp_path / "wrong.jsonl", [{**one, "label": turned[one["label"]]} for one in CLASSES])
    finetune("classify", base, data, tmp_path / "teacher", recipe=plan())
    soft = override(plan(), {"objective.soft": 1.0})
    made = finetune("classify", base, wrong, tmp_path / "out", teacher=tmp_path / "teacher", recipe=soft)
    assert [made.model.classify(one["text"]).label for one in CLASSES] == ["yes", "no", "yes"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_rate_is_suggested_for_a_head_on_features(base, tmp_path, kept):
    """The sweep leaves the features where the run looks for them."""
    data, file = write(tmp_path / "train.jsonl", CLASSES * 4), tmp_path / "features.npy"
    finetune("classify", base, data, tmp_path / "teacher", recipe=plan())
    asked = {"teacher": tmp_path / "teacher", "recipe": override(plan(), {"objective.soft": 0.5})}
    found = learning_rates("classify", base, data, features=file if kept else None, **asked)
    assert found.suggestion is not None
    assert file.is_file() == kept


def test_the_folder_is_the_encoders_for_others(base, tmp_path):
    transformers = pytest.importorskip("transformers")
    data = write(tmp_path / "train.jsonl", TAGGED)
    finetune("tag", base, data, tmp_path / "out", recipe=plan())
    ours, theirs = (transformers.AutoModel.from_pretrained(folder).state_dict() for folder in (tmp_path / "out", base))
    for name, weight in theirs.items():
        if "pooler" not in name:
            assert_close(ours[name], weight)


def test_the_card_says_what_is_read(base, tmp_path):
    finetune("tag", base, write(tmp_path / "train.jsonl", TAGGED), tmp_path / "out", recipe=plan(layers=[-1, 0]))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "heads: tags, on the layers -1, 0 (sum)." in card
    assert 'pipeline_tag: "token-classification"' in card
    assert "Labels (3): `B-LOC`, `B-PER`, `O`" in card
    assert "Its encoder alone with transformers:" in card


def test_a_new_head_reads_the_last_layer_alone(base, tmp_path):
    finetune("tag", base, write(tmp_path / "train.jsonl", TAGGED), tmp_path / "out", recipe=plan())
    assert load(tmp_path / "out").with_head("classes", 2).network.features is None


@pytest.mark.parametrize(
    ("task", "changes", "error", "message"),
    [
        ("choose", {}, BadInput, "--frozen is for classify, label, regress, tag and summarise"),
        ("tag", {"lora": 4}, BadConfig, "a frozen encoder stays as it is; leave lora, skill and capitals out"),
        ("tag", {"frozen.lstm": 0}, BadConfig, "lstm must be at least 1, got 0"),
        ("tag", {"frozen.layers": [7]}, BadInput, "layer 7 is not there; this model has layers 0 to 4"),
        ("tag", {"frozen.layers": []}, BadInput, "no layers are chosen"),
        ("tag", {"frozen.combine": "max"}, BadConfig, "frozen.combine"),
    ],
)
def test_what_cannot_be_frozen_is_refused(base, tmp_path, task, changes, error, message):
    choices = [{"context": "a cat", "choices": ["sat", "ran"], "label": 0}]
    data = write(tmp_path / "train.jsonl", choices if task == "choose" else TAGGED)
    with pytest.raises(error, match=message):
        finetune(task, base, data, tmp_path / "out", recipe=override(feature_extraction(), changes))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("head", "span", "head 'span' is not known; it is one of classes, tags"),
        ("combine", "max", "combine 'max' is not known"),
        ("outputs", 0, "outputs is 0, not a positive number"),
        ("outputs", 4, "config.json names 3 labels for 4 outputs; copy the folder again"),
        ("lstm", 10**9, "asks for other sizes than features.safetensors holds"),
        ("lstm", 8, "are of different heads"),
        ("layers", [9], "layer 9 is not there"),
    ],
)
def test_a_damaged_description_is_refused(base, tmp_path, name, value, message):
    finetune("tag", base, write(tmp_path / "train.jsonl", TAGGED), tmp_path / "out", recipe=plan())
    path = tmp_path / "out" / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises((BadCheckpoint, BadInput), match=message):
        load(tmp_path / "out")


def test_an_answer_from_several_layers_is_not_explained(base, tmp_path):
    finetune("classify", base, write(tmp_path / "train.jsonl", CLASSES), tmp_path / "out", recipe=plan())
    with pytest.raises(WrongTask, match="this head reads several layers"):
        why(load(tmp_path / "out"), "a cat")
