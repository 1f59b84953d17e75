"""What verbs share: texts in from arguments, files or stdin; options of uses and of training; progress on stderr."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from clearhead.errors import BadInput, NotFound
from clearhead.io import Progress

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model
    from clearhead.training.loop import TrainResult


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
    from clearhead.nn.heads import Network
    from clearhead.pipelines.model import Model, Skilled

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
def progress(label: str, total: int | None, *, of_bytes: bool = False) -> Iterator[Progress]:
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


RecipeOption = Annotated[Path | None, typer.Option(help="A TOML file that changes the recipe by name.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change one value of the recipe: --set train.learning_rate=3e-5.")
]
CORPUS = "Files (.txt .jsonl .parquet, also .gz .xz .zst), folders, patterns, hub:owner/name."
CorpusOption = Annotated[list[str], typer.Option("--corpus", help=CORPUS)]
MinutesOption = Annotated[float | None, typer.Option(help="How long to train: warm-up and decay fit this budget.")]
StepsOption = Annotated[int | None, typer.Option(help="How many steps to train, instead of minutes.")]
TensorboardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Write for TensorBoard too, in the run's folder.")
]
TextOption = Annotated[
    str | None, typer.Option(help="Name of the column with the text (choose: context; tag: words; search: query).")
]
PairOption = Annotated[
    str | None, typer.Option(help="Name of the column with the second text (choose: choices; search: passage).")
]
LabelOption = Annotated[str | None, typer.Option(help="Name of the column with the label, score, tags or relevance.")]
ShardOption = Annotated[
    bool,
    typer.Option(
        "--shard", help="Cut the network up among the processes that torchrun started, instead of copying it."
    ),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.")]

_LENGTHS = ("train.steps", "train.epochs", "train.minutes")


def changes(recipe: Path | None, written: list[str] | None, **options: Any) -> dict[str, Any]:
    """What a recipe file, `--set` and the verb's own options change; the last wins.

    A length that is named takes the place of those before it, whether they count steps, epochs or minutes.
    """
    from clearhead.training.settings import parse_settings, read_recipe

    own = {name.replace("__", "."): value for name, value in options.items() if value is not None}
    found: dict[str, Any] = {}
    for layer in (read_recipe(recipe) if recipe is not None else {}, parse_settings(written or []), own):
        if any(layer.get(length) is not None for length in _LENGTHS):
            found |= dict.fromkeys(_LENGTHS)
        found |= layer
    return found


def named_columns(text: str | None, pair: str | None, label: str | None) -> dict[str, str]:
    """The columns that were named, by their roles."""
    return {role: column for role, column in (("text", text), ("pair", pair), ("label", label)) if column is not None}


def pick_device(named: str | None) -> str:
    """The device named, which must be there, or a GPU if there is one."""
    import torch

    from clearhead.errors import NotFound

    if named is None or (named == "cuda" and torch.cuda.is_available()):  # each process has a GPU of its own
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones((), device=named).item()
    except (AssertionError, RuntimeError):  # as torch puts it where there is no such device
        raise NotFound(f"device {named!r} is not there; choose cpu or cuda, or leave --device out") from None
    return named


def check_shard(shard: bool) -> None:
    """Refuse to cut a network up where nobody else is there to take a part."""
    from clearhead.errors import BadInput

    if shard and "WORLD_SIZE" not in os.environ:
        raise BadInput(
            "--shard needs several processes; start them with: torchrun --nproc-per-node 2 -m clearhead "
            f"{shlex.join(sys.argv[1:])}"
        )


def command_line() -> str:
    """What the user typed, for the model's card."""
    started = ["clearhead"]
    if "LOCAL_WORLD_SIZE" in os.environ:  # set by torchrun
        machines, processes = os.environ.get("GROUP_WORLD_SIZE", "1"), os.environ["LOCAL_WORLD_SIZE"]
        started = ["torchrun", "--nnodes", machines, "--nproc-per-node", processes, "-m", "clearhead"]
    return shlex.join([*started, *sys.argv[1:]])


def print_result(model: object, result: "TrainResult", out: Path, *, json: bool) -> None:
    """Say how a run ended, once, however many processes it had."""
    from clearhead.training.distributed import first_process

    if first_process() and json:
        print_json({"folder": str(out), "exit": result.exit, "steps": result.step, "tokens": result.tokens})
    elif first_process():
        outcome = "run the same command again to go on" if result.exit == "interrupted" else f"{model!r} in {out}"
        typer.echo(f"{result.exit} after {result.step:,} steps and {result.tokens:,} tokens: {outcome}")
    leave_if_interrupted(result)


def leave_if_interrupted(result: "TrainResult") -> None:
    """End with what a shell expects of a program that a signal stopped: 130 after Ctrl-C, 143 after SIGTERM."""
    if result.exit == "interrupted":
        raise typer.Exit(128 + (result.signal or signal.SIGINT))


def repeat(run: Callable[[Path, Any], Any], plan: Any, out: Path, *, task: str, seeds: int, json: bool) -> None:
    """Let `run(folder, recipe)` train, once or with several seeds in a folder each, and say what was measured."""
    from clearhead.training.recipes.finetune import over_seeds, with_seed

    def once(seed: int) -> dict[str, float]:
        folder, recipe = (out / f"seed-{seed}", with_seed(plan, seed)) if seeds > 1 else (out, plan)
        outcome = run(folder, recipe)
        if outcome.result.exit == "interrupted":  # there is nothing to measure or to repeat
            print_result(None, outcome.result, folder, json=json)
        return outcome.metrics

    _print_figures(task, out, over_seeds(once, range(seeds)), seeds=seeds, json=json)


def _print_figures(task: str, out: Path, figures: Mapping[str, tuple[float, float]], *, seeds: int, json: bool) -> None:
    """Say once where a fine-tuned model is, and what was measured: mean and, over several seeds, deviation."""
    from clearhead.training.distributed import first_process

    if not first_process():
        return
    if json:
        means = {name: mean for name, (mean, _) in figures.items()}
        deviations = {"deviations": {name: deviation for name, (_, deviation) in figures.items()}} if seeds > 1 else {}
        print_json({"folder": str(out), "task": task, "seeds": seeds, "figures": means, **deviations})
        return
    typer.echo(f"wrote {out}")
    for name, (mean, deviation) in figures.items():
        spread = f" ± {deviation:.2f}" if seeds > 1 else ""
        typer.echo(f"{name:<14} {mean:.2f}{spread}")
