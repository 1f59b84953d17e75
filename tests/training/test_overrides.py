from dataclasses import dataclass, field
from typing import Literal

import pytest

from clearhead.errors import BadConfig, NotFound
from clearhead.training.settings import override, parse_settings, read_recipe


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


def test_bad_recipe_files_are_refused(tmp_path):
    with pytest.raises(NotFound, match="there is no recipe"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"bad\.toml is not valid TOML"):
        read_recipe(tmp_path / "bad.toml")
