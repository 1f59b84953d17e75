"""Commands that draw: a function gives the view; --model, --skill, --out and --json are the same for all of them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

import typer

from clearhead.cli.inout import JsonOption, ModelOption, SkillOption, print_json

if TYPE_CHECKING:
    from clearhead.inside.view import View

Draw = Callable[..., Union["View", tuple["View", str]]]
OutOption = Annotated[Path | None, typer.Option(help="The HTML file to write; else it is named after the picture.")]


def picture(draw: Draw) -> Callable[..., None]:
    """Make a command of a function that gives a view, or a view and a word about it.

    The function's arguments are the command's; one called `loaded` is the model that --model and --skill name.
    """

    def command(*, out: Path | None, json: bool, **given: Any) -> None:
        if "loaded" in inspect.signature(draw).parameters:
            from clearhead.pipelines.model import load

            given["loaded"] = load(given.pop("model"), skill=given.pop("skill"))
        drawn = draw(**given)
        view, about = drawn if isinstance(drawn, tuple) else (drawn, "")
        path = view.save(out or f"{view.title}.html")
        if json:
            print_json({"file": str(path), **view.data})
        else:
            typer.echo(f"wrote {path}{f': {about}' if about else ''}; open it in a browser")

    command.__doc__, command.__name__ = draw.__doc__, draw.__name__
    command.__signature__ = _asked(draw)  # type: ignore[attr-defined]  # which is where typer looks
    return command


def _asked(draw: Draw) -> inspect.Signature:
    """What the command line asks for: the function's own arguments, then those of every picture."""
    own = dict(inspect.signature(draw).parameters)
    shared: list[tuple[str, Any, Any]] = [("out", OutOption, None), ("json", JsonOption, False)]
    if own.pop("loaded", None):
        shared[:0] = [("model", ModelOption, None), ("skill", SkillOption, None)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, keyword, default=default, annotation=kind) for name, kind, default in shared]
    return inspect.Signature([*own.values(), *added])
