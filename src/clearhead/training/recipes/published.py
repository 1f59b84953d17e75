"""Recipes of papers, by name: TOML files in `published/`, whose table [recipe] says which model they begin with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.errors import BadConfig, BadInput, NotFound, filled, near, require
from clearhead.training.recipes.run import CPU_TOKENS
from clearhead.training.settings import read_recipe

FOLDER = Path(__file__).parent / "published"
_TABLE = "recipe."


@dataclass(frozen=True, kw_only=True, slots=True)
class NewModel:
    """What a recipe begins with: whose verb it is, a family and a size, and a tokenizer's kind and size."""

    verb: str | None = None
    family: str | None = None
    preset: str | None = None
    tokenizer: str | None = None
    vocabulary: int | None = None


@dataclass(frozen=True)
class RecipeFile:
    """A file of changes by dotted names, and its table [recipe], if it has one."""

    name: str
    changes: Mapping[str, Any]
    model: NewModel | None = None

    def check_verb(self, verb: str | None) -> None:
        """Refuse the recipe of another verb."""
        own = None if self.model is None else self.model.verb
        require(own in (None, verb), f"{self.name} is a recipe of clearhead {own}; choose one of this verb", BadInput)

    def changes_for(self, device: str, *, new: bool = True) -> dict[str, Any]:
        """What it changes. A published batch is cut into smaller parts for a CPU, and as many more of them.

        A model that is not `new` keeps its own sizes and dropout.
        """
        changes = {name: value for name, value in self.changes.items() if new or not name.startswith("model.")}
        tokens, times = changes.get("tokens"), changes.get("train.accumulate")
        if device == "cpu" and self.model is not None and tokens and times and tokens > CPU_TOKENS:
            changes |= {"tokens": CPU_TOKENS, "train.accumulate": -(-tokens * times // CPU_TOKENS)}
        return changes


def recipe_names() -> list[str]:
    """The names of the recipes that the package brings."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find_recipe(name: str) -> RecipeFile:
    """Look up a recipe by its published name, or read a TOML file."""
    names = recipe_names()
    path = FOLDER / f"{name}.toml" if name in names else Path(name)
    named = path.suffix == ".toml" or path.exists()
    require(named, f"there is no recipe {name!r}: {near(name, names)} A file of your own ends in .toml", NotFound)
    content = read_recipe(path)
    table = {key.removeprefix(_TABLE): content.pop(key) for key in list(content) if key.startswith(_TABLE)}
    model = filled(NewModel, table, f"{name}, table [recipe]", BadConfig) if table else None
    return RecipeFile(name, content, model)
