"""Options that all training verbs share: a recipe file, `--set key=value`, the device."""

from pathlib import Path
from typing import Annotated, Any

import typer

RecipeOption = Annotated[Path | None, typer.Option(help="A TOML file that changes the recipe by name.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change one value of the recipe: --set train.learning_rate=3e-5.")
]
TensorboardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Write for TensorBoard too, in the run's folder.")
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.")]


_LENGTHS = ("train.steps", "train.epochs", "train.minutes")


def changes(recipe: Path | None, written: list[str] | None, **options: Any) -> dict[str, Any]:
    """What a recipe file, `--set` and the verb's own options change; the last wins.

    A length that is named takes the place of the recipe's own, whether that counts steps, epochs or minutes.
    """
    from clearhead.training.overrides import parse_settings, read_recipe

    own = {name.replace("__", "."): value for name, value in options.items() if value is not None}
    found = {**(read_recipe(recipe) if recipe is not None else {}), **parse_settings(written or []), **own}
    if any(found.get(length) is not None for length in _LENGTHS):
        found = dict.fromkeys(_LENGTHS) | found
    return found


def pick_device(named: str | None) -> str:
    """The device named, or a GPU if there is one."""
    import torch

    from clearhead.errors import NotFound

    if named is not None and named.startswith("cuda") and not torch.cuda.is_available():
        raise NotFound(f"device {named!r} is not there; leave --device out to use the CPU")
    return named or ("cuda" if torch.cuda.is_available() else "cpu")
