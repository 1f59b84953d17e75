"""The command line: one file per group of verbs, text for people, `--json` for programs, exit code 2 on bad input."""

import atexit
import gc
import os
import sys
from typing import Any

import typer
from typer import Option
from typer.core import TyperGroup

from clearhead import __version__
from clearhead.cli import (
    bulk,
    embed,
    evaluate,
    finetune,
    generate,
    look,
    models,
    samples,
    search,
    serve,
    studio,
    tokenizer,
    train,
    understand,
)
from clearhead.errors import ClearheadError


class _Group(TyperGroup):
    """The verbs; `answer`, as the use is called in Python, in a service and in `finetune`, is `ask`."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb of a name."""
        return super().get_command(ctx, "ask" if cmd_name == "answer" else cmd_name)


app = typer.Typer(
    name="clearhead",
    cls=_Group,
    help="The whole life of Transformers and BERT: use, train, measure, look inside.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    understand,
    tokenizer,
    embed,
    search,
    generate,
    bulk,
    train,
    finetune,
    evaluate,
    models,
    samples,
    serve,
    studio,
    look,
):
    app.add_typer(group.app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def callback(
    version: bool = Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Take the options that stand before a verb."""


def main() -> None:
    """Run the command line; what a user did wrong is one line on stderr and exit code 2."""
    # importing torch makes many objects and no garbage: to look for some all the while, and again at the end, took a
    # sixth of the time to a first answer
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.freeze)
    try:
        app()
    except ClearheadError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # the reader has gone (`clearhead … | head`); keep Python from complaining while it shuts down
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # a folder that may not be written to, a full disk
        where = "" if error.filename is None else f"{error.filename}: "
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(2)
