"""What every verb shares: texts in from arguments, files or stdin; results out; progress on stderr."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.errors import BadInput, NotFound

ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A checkpoint folder, or the name of a model on the Hugging Face hub."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def read_texts(arguments: Sequence[str], file: Path | None) -> list[str]:
    """Texts from the command line, or one a line from a file or (with "-" or nothing given) from stdin."""
    if file is not None:
        if arguments:
            raise BadInput("give texts or --in FILE, not both")
        return _lines(file)
    if arguments and list(arguments) != ["-"]:
        return list(arguments)
    if sys.stdin.isatty():
        raise BadInput("no text given; write it as an argument, name a file with --in, or pipe it in")
    return [line.rstrip("\n") for line in sys.stdin]


def print_json(value: dict[str, Any]) -> None:
    """Print one line for programs."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def shown(text: str, width: int = 60) -> str:
    """Shorten a text for a table."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


@contextmanager
def progress(label: str, total: int | None, *, of_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Draw a bar on stderr, if somebody is looking; the function given back is told how much more is done."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda more: bar.advance(task, more)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text (byte {error.start}); convert it first") from None
    except OSError as error:
        raise NotFound(f"{file} cannot be read ({error.strerror})") from None
