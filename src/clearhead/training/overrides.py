"""Changing a recipe by name: `--set train.learning_rate=3e-5`, or a TOML file of the same names, read or written."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from clearhead.errors import BadConfig, NotFound
from clearhead.nn.config import typed

Recipe = TypeVar("Recipe")


def override(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return the recipe (nested frozen dataclasses) with the dotted names changed; an unknown one is an error."""
    names = list(known_names(recipe))
    for name in changes:
        if name not in names:
            same_end = [known for known in names if known.rpartition(".")[2] == name.rpartition(".")[2]]
            near = get_close_matches(name, same_end or names, n=1, cutoff=0.0 if same_end else 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
            raise BadConfig(f"unknown key {name}; {hint}")
    return _changed(recipe, changes, "")


def parse_settings(written: Iterable[str]) -> dict[str, Any]:
    """Read `key=value` as the command line gives it; a value that is no JSON is a plain string."""
    changes: dict[str, Any] = {}
    for item in written:
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise BadConfig(f"--set {item!r} is not key=value, such as train.learning_rate=3e-5")
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = {"none": None}.get(value.lower(), value)
    return changes


def read_recipe(path: Path) -> dict[str, Any]:
    """Read a TOML file of changes; its tables become dotted names."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"there is no recipe {path}") from None
    except OSError as error:
        raise NotFound(f"the recipe {path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} is not valid TOML: {error}") from None
    return dict(_flat(content))


def as_toml(recipe: Any) -> str:
    """Write all values of a recipe as `read_recipe` reads them; TOML has no word for None, which is left out."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in _values(recipe).items() if value is not None)


def made_of(recipe: Any, data: Mapping[str, int]) -> dict[str, Any]:
    """What a run that goes on must find as it was: its data and the recipe, of which the loop looks after `train`."""
    return {name: value for name, value in _values(recipe).items() if not name.startswith("train.")} | dict(data)


def known_names(recipe: Any, prefix: str = "") -> Iterator[str]:
    """List every name that can be changed."""
    for spec in fields(recipe):
        value = getattr(recipe, spec.name)
        if is_dataclass(value):
            yield from known_names(value, f"{prefix}{spec.name}.")
        else:
            yield prefix + spec.name


def _values(recipe: Any) -> dict[str, Any]:
    return {name: reduce(getattr, name.split("."), recipe) for name in known_names(recipe)}


def _changed(recipe: Any, changes: Mapping[str, Any], prefix: str) -> Any:
    """Change the fields of one dataclass all at once: some are valid only together."""
    hints = get_type_hints(type(recipe))
    new = {}
    for spec in fields(recipe):
        name = prefix + spec.name
        inside = {key: value for key, value in changes.items() if key.startswith(f"{name}.")}
        if inside:
            new[spec.name] = _changed(getattr(recipe, spec.name), inside, f"{name}.")
        elif name in changes:
            new[spec.name] = typed(changes[name], hints[spec.name], name)
    return replace(recipe, **new)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _toml(value: Any) -> str:
    """JSON's way to write a value is TOML's too, but for numbers that are not finite."""
    return str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
