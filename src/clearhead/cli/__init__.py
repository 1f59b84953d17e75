"""The command line: one verb per file, text for people, `--json` for programs, exit code 2 on bad input."""

import atexit
import gc
import os
import sys

import typer

from clearhead import __version__
from clearhead.cli import (
    ask,
    choose,
    classify,
    cluster,
    compare,
    convert,
    distil,
    duplicates,
    embed,
    evaluate,
    export,
    fill,
    finetune,
    generate,
    info,
    look,
    pretrain,
    search,
    senses,
    studio,
    summarise,
    tag,
    tokenize,
    tokenizer,
    translate,
    vectors,
)
from clearhead.cli.translation import SeveralFiles
from clearhead.errors import ClearheadError

app = typer.Typer(
    name="clearhead",
    help="The whole life of Transformers and BERT: use, train, measure, look inside.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(ask.ask)
app.command()(fill.fill)
app.command()(classify.classify)
app.command()(tag.tag)
app.command()(compare.compare)
app.command()(choose.choose)
app.command()(tokenize.tokenize)
app.command()(embed.embed)
app.command()(search.search)
app.command()(cluster.cluster)
app.command()(duplicates.duplicates)
app.command()(summarise.summarise)
app.command()(translate.translate)
app.command()(generate.generate)
app.command()(senses.senses)
app.command()(pretrain.pretrain)
app.command(cls=SeveralFiles)(finetune.finetune)
app.command()(distil.distil)
app.command(cls=SeveralFiles)(evaluate.evaluate)
app.command()(info.info)
app.command()(convert.convert)
app.command()(export.export)
app.command()(studio.studio)
app.add_typer(look.app)
app.add_typer(tokenizer.app)
app.add_typer(vectors.app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
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
