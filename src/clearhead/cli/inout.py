"""What every verb shares: texts in from arguments, files or stdin; results out; progress on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from clearhead.errors import BadInput, NotFound

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="A checkpoint folder, or a name on the Hugging Face hub. Default: the built-in."
    ),
]


def _named(context: typer.Context, model: str | None) -> str | None:
    if model is None and not context.resilient_parsing:
        raise BadInput("the built-in model does not write; name a --model that does, such as a GPT-2, T5 or OPUS-MT")
    return model


WriterOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        callback=_named,
        help="A checkpoint folder or hub name; the built-in model does not write.",
    ),
]
SkillOption = Annotated[str | None, typer.Option(help="A skill of the model: its name, or a folder that holds one.")]
TextsArgument = Annotated[list[str] | None, typer.Argument(help='Texts, or "-" for one a line from stdin.')]
TextsOption = Annotated[Path | None, typer.Option("--in", help="A file with one text a line.")]
BestOption = Annotated[int | None, typer.Option(help="Give so many ways of each text, the best first.")]
PenaltyOption = Annotated[float | None, typer.Option(help="Of beams: above 1 favours long texts, below 1 short ones.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
INT8_SAMPLE = 200  # inputs on which int8 must agree
Int8Option = Annotated[
    bool,
    typer.Option(
        "--int8", help=f"Multiply in 8 bits, for many texts; refused if the first {INT8_SAMPLE} come out different."
    ),
]

STDIN = Path("stdin")  # its name in messages
_PATIENCE = 1.0  # seconds that nobody minds to wait without a word


def read_texts(arguments: Sequence[str], file: Path | None) -> list[str]:
    """Texts from the command line, or one a line from a file or (with "-" or nothing given) from stdin."""
    if file is not None:
        if arguments:
            raise BadInput("give texts or --in FILE, not both")
        return list(_lines(file))
    if arguments and list(arguments) != ["-"]:
        return list(arguments)
    if sys.stdin.isatty():
        raise BadInput("no text given; write it as an argument, name a file with --in, or pipe it in")
    return list(_lines(None))


def stream_texts(arguments: Sequence[str], file: Path | None) -> tuple[Iterator[str], int | None]:
    """The texts of `read_texts` one after another, however large the file, and how many there are if that is known."""
    if file is not None and not arguments:
        return _lines(file), sum(1 for _ in _lines(file))
    if file is None and list(arguments) in ([], ["-"]) and not sys.stdin.isatty():
        return _lines(None), None
    texts = read_texts(arguments, file)  # or what it has against them
    return iter(texts), len(texts)


def _lines(file: Path | None) -> Iterator[str]:
    """The lines of a file, or of stdin."""
    expect_many()
    with reading(file or STDIN), _stdin() if file is None else file.open(encoding="utf-8-sig") as lines:
        for line in lines:
            yield line.rstrip("\n")


def expect_many() -> None:
    """Keep memory constant over many texts; to be said before the first of them is computed.

    oneDNN, and torch's layer above it, keep what they prepared for each number of tokens: hundreds of megabytes over a
    long file, where to prepare it anew takes no time that could be measured. For one short text, or for writing token
    by token, it doubles the time.
    """
    for kept, count in (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"), ("LRU_CACHE_CAPACITY", "1")):
        os.environ.setdefault(kept, count)


@contextmanager
def _stdin() -> Iterator[TextIO]:
    """Stdin as files are read: UTF-8, whatever the terminal's language is."""
    if isinstance(sys.stdin, TextIOWrapper) and sys.stdin.encoding != "utf-8-sig":
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    yield sys.stdin


def given_texts(arguments: Sequence[str] | None, file: Path | None) -> list[str]:
    """Read the texts as `read_texts` does, and refuse if there is nothing in them."""
    texts = read_texts(arguments or [], file)
    check_texts(texts)
    return texts


def check_texts(texts: Sequence[str]) -> None:
    """Refuse texts that are all empty."""
    if not any(text.strip() for text in texts):
        raise BadInput("the text is empty; give some words")


def quantised(model: "Model", use: str, inputs: Iterable[Any]) -> "Model":
    """The model for a use in 8 bits; refused where that changes the results of the first inputs."""
    from clearhead.nn.network import Network
    from clearhead.pipelines.model import Model
    from clearhead.pipelines.skills import Skilled

    checkpoint = (model.able(use) if isinstance(model, Skilled) else model).checkpoint
    if use == "embed":  # then vectors are compared, whatever heads stand on the encoder
        checkpoint = replace(checkpoint, network=Network(checkpoint.network.encoder, {}))
    return Model(checkpoint).quantise(list(islice(inputs, INT8_SAMPLE)))


def print_json(value: dict[str, Any]) -> None:
    """Print one line for programs."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def shown(text: str, width: int = 60) -> str:
    """Shorten a text for a table."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


@contextmanager
def progress(label: str, total: int | None, *, of_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Draw a bar on stderr after a second, if somebody looks; the function given back is told how much more is done.

    What is printed meanwhile stands above the bar; where stdout is a file, it goes there and not to the terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    bar = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
        redirect_stdout=sys.stdout.isatty(),
    )
    task = bar.add_task(label, total=total)
    late = Timer(_PATIENCE, bar.start)
    late.daemon = True
    late.start()
    try:
        yield lambda more: bar.advance(task, more)
    finally:
        late.cancel()
        late.join()
        bar.stop()


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Say in one sentence why a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not UTF-8 text; convert it first") from None
    except OSError as error:
        raise NotFound(f"{file} cannot be read ({error.strerror})") from None


def read_file(file: Path) -> str:
    """Read the text of a file, or say in one sentence why it cannot be read."""
    with reading(file):
        return file.read_text(encoding="utf-8-sig")


def _read_stdin() -> str:
    with reading(STDIN), _stdin() as stream:
        return stream.read()


def read_sources(names: Sequence[str]) -> list[str]:
    """Each file as one text, stdin as "-"; refuse if there is nothing in them."""
    texts = [_read_stdin() if name == "-" else read_file(Path(name)) for name in names]
    check_texts(texts)
    return texts


def up_to(advance: Callable[[int], None]) -> Callable[[int], None]:
    """Turn "how much more" into "how much in all", which is what readers of files report."""
    done = 0

    def report(total: int) -> None:
        nonlocal done
        advance(total - done)
        done = total

    return report
