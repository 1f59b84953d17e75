"""Settings that cannot be meant are refused, and a recipe is changed by name."""

import re
from dataclasses import dataclass, field
from typing import Literal

import pytest

from clearhead.errors import BadConfig, NotFound
from clearhead.training.recipes.finetune import Finetune, feature_extraction
from clearhead.training.recipes.pretrain import Pretrain
from clearhead.training.settings import Every, Settings, override, parse_settings, read_recipe

WRONG = [
    ({}, "exactly one of steps, epochs and minutes, got none"),
    ({"steps": 1, "minutes": 2}, r"exactly one .* got \{'steps': 1, 'minutes': 2\}"),
    ({"epochs": 0}, "epochs must be positive and finite, got 0"),
    ({"epochs": float("inf")}, "epochs must be positive and finite, got inf"),
    ({"minutes": float("inf")}, "minutes must be positive and finite, got inf"),
    ({"minutes": float("nan")}, "minutes must be positive and finite, got nan"),
    ({"steps": 1, "accumulate": 0}, "accumulate must be at least 1, got 0"),
    ({"steps": 1, "learning_rate": 0}, "learning_rate must be positive and finite, got 0"),
    ({"steps": 1, "learning_rate": float("inf")}, "learning_rate must be positive and finite, got inf"),
    ({"steps": 1, "learning_rate": 5}, "learning_rate 5 is far too large to learn anything; 1e-5 to 1e-4 is usual for"),
    ({"steps": 1, "weight_decay": float("inf")}, "weight_decay must be finite and not negative, got inf"),
    ({"steps": 1, "warmup": 1.0}, r"warmup is a share in \[0, 1\), got 1.0"),
    ({"steps": 1, "betas": (0.9, 1.0)}, "betas are two numbers"),
    ({"steps": 1, "layer_decay": 0}, r"layer_decay must be in \(0, 1\], got 0"),
    ({"steps": 1, "schedule": "square"}, "unknown schedule 'square'; known: linear, cosine, trapezoidal"),
    ({"steps": 1, "optimiser": "sgd"}, "unknown optimiser 'sgd'; known: adamw, muon, lamb, adafactor"),
    ({"steps": 1, "eps": 0.0}, "eps must be positive and small, got 0.0; 1e-8 to 1e-6 is usual"),
    ({"steps": 1, "optimiser": "adafactor", "eps": 1e-6}, "eps 1e-06 is none of adafactor's, which has its own"),
    ({"steps": 1, "schedule": "inverse_sqrt", "warmup": 0.0}, "the schedule inverse_sqrt needs a warmup"),
    ({"steps": 1, "precision": "fp16"}, "unknown precision 'fp16'"),
    ({"steps": 1, "clip": 0}, "clip must be positive, got 0; write inf for none"),
    ({"steps": 1, "patience": 2}, "patience 2 needs a metric"),
    ({"steps": 1, "seed": -1}, "seed must not be negative"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_wrong_values_are_named(fields, message):
    with pytest.raises(BadConfig, match=message):
        Settings(**fields)


def test_intervals_are_positive():
    with pytest.raises(BadConfig, match=r"every\.save must be at least 1, got 0"):
        Every(save=0)


def test_few_fields():
    assert len(Settings.__dataclass_fields__) <= 21


@dataclass(frozen=True, kw_only=True)
class Inner:
    learning_rate: float = 1e-4
    schedule: Literal["linear", "cosine"] = "linear"
    minutes: float | None = None
    compile: bool = False


@dataclass(frozen=True, kw_only=True)
class Outer:
    steps: int = 10
    train: Inner = field(default_factory=Inner)


def test_values_are_changed_by_dotted_names():
    written = ["train.learning_rate=3e-5", "steps=7", "train.schedule=cosine", "train.minutes=2", "train.compile=true"]
    changed = override(Outer(), parse_settings(written))
    assert changed == Outer(steps=7, train=Inner(learning_rate=3e-5, schedule="cosine", minutes=2.0, compile=True))
    assert override(changed, parse_settings(["train.minutes=none"])).train.minutes is None


def test_a_recipe_file_holds_the_same_names(tmp_path):
    (tmp_path / "recipe.toml").write_text('steps = 3\n[train]\nschedule = "cosine"\n', encoding="utf-8")
    assert override(Outer(), read_recipe(tmp_path / "recipe.toml")) == Outer(steps=3, train=Inner(schedule="cosine"))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("train.learnin_rate=1", "unknown key train.learnin_rate; did you mean train.learning_rate?"),
        ("schedule=linear", "unknown key schedule; did you mean train.schedule?"),
        ("zzz=1", "unknown key zzz; known: steps, train.learning_rate"),
        ("lr=1", "unknown key lr; did you mean train.learning_rate? It is 0.0001 now"),
        ("train.lr=1", "unknown key train.lr; did you mean train.learning_rate?"),
        ("max_steps=1", "unknown key max_steps; did you mean steps?"),
        ("train.learning_rate=fast", "train.learning_rate = 'fast' is not of type float; it is 0.0001 now"),
        ("steps=many", "steps = 'many' is not of type int"),
        ("steps=1.5", "steps = 1.5 is not of type int"),
        ("train.schedule=wavy", "train.schedule = 'wavy' is not 'linear' or 'cosine'"),
        ("steps", "--set 'steps' is not key=value"),
    ],
)
def test_bad_changes_are_refused(written, message):
    with pytest.raises(BadConfig) as caught:
        override(Outer(), parse_settings([written]))
    assert str(caught.value).startswith(message)


def test_batches_go_by_the_name_that_a_recipe_has():
    for recipe, name in ((Finetune(), "items? It is 32 now"), (Pretrain(), "tokens? It is 16384 now")):
        with pytest.raises(BadConfig, match=re.escape(f"unknown key batch_size; did you mean {name}")):
            override(recipe, {"batch_size": 8})
    with pytest.raises(BadConfig, match="items must be at least 1, got 0; 16 or 32 is usual"):
        override(Finetune(), {"items": 0})


def test_what_a_part_has_is_named_where_the_part_is_there():
    with pytest.raises(BadConfig, match=r"unknown key frozen\.lstm; there is none without --frozen"):
        override(Finetune(), {"frozen.lstm": 8})
    with pytest.raises(BadConfig, match=r"unknown key frozen\.lsm; did you mean frozen\.lstm\?"):
        override(feature_extraction(), {"frozen.lsm": 8})


def test_bad_recipe_files_are_refused(tmp_path):
    with pytest.raises(NotFound, match="there is no recipe"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"bad\.toml is not valid TOML"):
        read_recipe(tmp_path / "bad.toml")
