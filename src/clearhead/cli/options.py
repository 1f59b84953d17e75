"""What verbs share: `Verbs`, which makes commands of functions; texts, models and training options; progress."""

import inspect
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from clearhead.cli.render import Rows, print_rows
from clearhead.errors import BadInput, NotFound, require
from clearhead.io import Progress

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model
    from clearhead.training.loop import TrainResult

TextOrTexts = TypeVar("TextOrTexts", str, list[str])
Recipe = TypeVar("Recipe")
JsonOption = Annotated[bool, Option("--json", help="One JSON object a line, for programs.")]


class Shared:
    """Metadata of a parameter that is made of options (annotation, default), which `make` takes by their names.

    `Loaded = Annotated["Model", Shared(load_model, model=(ModelOption, None))]`: a verb with a parameter of type
    `Loaded` has the option --model, and is given a model.
    """

    def __init__(self, make: Callable[..., Any], **options: tuple[Any, Any]) -> None:
        self.make = make
        self.options = options


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others have their defaults where they are used."""
    return {name: value for name, value in options.items() if value is not None}


class Verbs(typer.Typer):
    """Commands, at the top or under a common word, such as `clearhead look …`."""

    def __init__(self, name: str | None = None, about: str | None = None) -> None:
        super().__init__(name=name, help=about, no_args_is_help=True, rich_markup_mode="markdown")

    def verb(self, function: Callable[..., Rows]) -> Callable[..., Rows]:
        """Make a command of a function that yields results, each an object for `--json` and lines for people.

        Parameters are options as typer reads them, or `Shared` ones, whose values are made in their order. A function
        that prints by itself may ask for `json`.
        """
        own = inspect.signature(function).parameters
        shared = {
            name: one
            for name, parameter in own.items()
            for one in getattr(parameter.annotation, "__metadata__", ())
            if isinstance(one, Shared)
        }
        options: dict[str, tuple[Any, Any]] = {}
        for name, parameter in own.items():
            options |= shared[name].options if name in shared else {name: (parameter.annotation, parameter.default)}
        options |= {"json": (JsonOption, False)}

        def command(*, json: bool, **own_values: Any) -> None:
            made = {name: one.make(**{of: own_values.pop(of) for of in one.options}) for name, one in shared.items()}
            print_rows(function(**made, **own_values, **({"json": json} if "json" in own else {})), as_json=json)

        command.__doc__ = function.__doc__
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # which is where typer looks
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
                for name, (annotation, default) in options.items()
            ]
        )
        self.command(function.__name__.strip("_").replace("_", "-"), cls=Command)(command)
        return function


# options that had other names until 0.1; they are still read where the new one is, and go with the next release
RENAMED = {
    "--beams": "--num-beams",
    "--best": "--num-return-sequences",
    "--least": "--min-new-tokens",
    "--longest": "--max-new-tokens",
    "--no-repeat": "--no-repeat-ngram-size",
    "--stop": "--stop-strings",
    "--strategy": "--aggregation-strategy",
    "--top": "--top-k",
}


class Command(TyperCommand):
    """A verb that still takes the old names of options, and several files after `--data` and `--dev`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write new names for old ones with a warning; write `--data` again before each further file.

        So the task of `finetune` must stand before its options: `translation --data train.en train.de`.
        """
        known = {name for parameter in self.params for name in parameter.opts}
        spread: list[str] = []
        option = None
        for place, arg in enumerate(args):
            if arg == "--":
                spread += args[place:]
                break
            name, equals, value = arg.partition("=")
            if name in RENAMED and name not in known and RENAMED[name] in known:
                typer.echo(
                    f"warning: {name} is now called {RENAMED[name]}; the old name goes with the next release", err=True
                )
                arg = RENAMED[name] + equals + value
            elif name.startswith("--") and name not in known and "--set" in known:
                _refuse_setting(name, value or next(iter(args[place + 1 :]), "…"))
            if arg.startswith("-"):
                option = arg if arg in known & {"--data", "--dev"} else None
            elif option is not None and spread[-1] != option:
                spread.append(option)
            spread.append(arg)
        return super().parse_args(ctx, spread)


def _refuse_setting(option: str, value: str) -> None:
    """Say how to write what is no option but a value of the recipe, such as --lr or --epochs."""
    from clearhead.training.settings import SYNONYMS, Settings

    name = option.removeprefix("--").replace("-", "_")
    names = [f"train.{name}"] if name in {spec.name for spec in fields(Settings)} else SYNONYMS.get(name)
    if names is not None:
        raise BadInput(f"there is no {option}; write {' or '.join(f'--set {one}={value}' for one in names)}")


# ---- texts: arguments, a file, or stdin ---------------------------------------------------------------------------

TextsArgument = Annotated[list[str] | None, Argument(help='Texts, or "-" for one a line from stdin.')]
InOption = Annotated[Path | None, Option("--in", help="A file with one text a line.")]
TEXTS: dict[str, tuple[Any, Any]] = {"texts": (TextsArgument, None), "file": (InOption, None)}


def read_texts(texts: Sequence[str] | None, file: Path | None) -> Iterator[str]:
    """Texts from the command line, or one a line from a file or (with "-" or nothing given) from stdin."""
    if file is not None:
        require(not texts, "give texts or --in FILE, not both", BadInput)
        return _lines(file)
    if texts and list(texts) != ["-"]:
        return iter(texts)
    if sys.stdin.isatty():
        raise BadInput("no text given; write it as an argument, name a file with --in, or pipe it in")
    return _lines(None)


def count_texts(texts: Sequence[str] | None, file: Path | None) -> int | None:
    """How many texts `read_texts` gives, if that is known before they are read."""
    if file is not None:
        return sum(1 for _ in _lines(file))
    return len(texts) if texts and list(texts) != ["-"] else None


def given_texts(texts: Sequence[str] | None = None, file: Path | None = None) -> list[str]:
    """Read the texts as `read_texts` does, and refuse if there is nothing in them."""
    return nonempty(list(read_texts(texts, file)))


Texts = Annotated[list[str], Shared(given_texts, **TEXTS)]


def nonempty(texts: TextOrTexts) -> TextOrTexts:
    """Refuse an empty text, or texts that are all empty; the callback of arguments that are one text."""
    require(any(map(str.strip, texts)), "the text is empty; give some words", BadInput)
    return texts


def read_sources(files: Sequence[str] | None) -> list[tuple[str, str]]:
    """Each file's name and its content as one text, stdin as "-" or if none is named; refuse if all are empty."""
    sources = []
    for name in files or ["-"]:
        with _opened(None if name == "-" else Path(name)) as stream:
            sources.append((name, stream.read()))
    nonempty([text for _, text in sources])
    return sources


def _lines(file: Path | None) -> Iterator[str]:
    """The lines of a file, or of stdin."""
    expect_many()
    with _opened(file) as lines:
        for line in lines:
            yield line.rstrip("\n")


@contextmanager
def _opened(file: Path | None) -> Iterator[TextIO]:
    """A file, or stdin, as UTF-8, whatever the terminal's language is; one sentence if it cannot be read."""
    try:
        if file is not None:
            with file.open(encoding="utf-8-sig") as stream:
                yield stream
            return
        if isinstance(sys.stdin, TextIOWrapper) and sys.stdin.encoding != "utf-8-sig":
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
        yield sys.stdin
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file or 'stdin'} is not UTF-8 text; convert it first") from None
    except OSError as error:
        raise NotFound(f"{file or 'stdin'} cannot be read ({error.strerror})") from None


def expect_many() -> None:
    """Keep memory constant over many texts; to be said before the first of them is computed.

    oneDNN, and torch's layer above it, keep what they prepared for each number of tokens: hundreds of megabytes over a
    long file, where to prepare it anew takes no time that could be measured. For one short text, or for writing token
    by token, it doubles the time.
    """
    for kept, count in (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"), ("LRU_CACHE_CAPACITY", "1")):
        os.environ.setdefault(kept, count)


def comma_separated(written: str | None) -> list[str] | None:
    """The parts of an option such as `--labels money,animals`."""
    return None if written is None else [part.strip() for part in written.split(",")]


def layer_numbers(written: str) -> list[int]:
    """The layers of an option such as `--layers=-2,-1`."""
    try:
        return [int(layer) for layer in written.split(",")]
    except ValueError:
        raise BadInput(f"--layers {written!r} is not a list of numbers such as -4,-3,-2,-1") from None


# ---- models -------------------------------------------------------------------------------------------------------

CHECKPOINT = "A checkpoint folder, or a name on the Hugging Face hub. Default: the built-in."
ModelOption = Annotated[str | None, Option("--model", "-m", help=CHECKPOINT)]
GENERATOR = "A checkpoint folder or hub name; the built-in model does not generate text."
GeneratorOption = Annotated[str | None, Option("--model", "-m", help=GENERATOR)]
SkillOption = Annotated[str | None, Option(help="A skill of the model: its name, or a folder that holds one.")]
INT8_SAMPLE = 200  # inputs on which int8 must agree
INT8 = f"Multiply in 8 bits, for many texts; refused if the first {INT8_SAMPLE} come out different."
Int8Option = Annotated[bool, Option("--int8", help=INT8)]


def load_model(model: str | None, skill: str | None = None) -> "Model":
    """Load what --model and --skill name."""
    from clearhead.pipelines.model import load

    return load(model, skill=skill)


def load_generator(model: str | None) -> "Model":
    """Load a model that writes text, which the built-in one does not."""
    if model is None:
        raise BadInput("the built-in model does not write; name a --model that does, such as a GPT-2, T5 or OPUS-MT")
    return load_model(model)


Loaded = Annotated["Model", Shared(load_model, model=(ModelOption, None))]
LoadedWithSkill = Annotated["Model", Shared(load_model, model=(ModelOption, None), skill=(SkillOption, None))]
LoadedGenerator = Annotated["Model", Shared(load_generator, model=(GeneratorOption, None))]


def quantised(model: "Model", use: str, inputs: Iterable[Any]) -> "Model":
    """The model for a use in 8 bits; refused where that changes the results of the first inputs."""
    from clearhead.nn.heads import Network
    from clearhead.pipelines.model import Model

    checkpoint = model.able(use).checkpoint
    if use == "embed":  # then vectors are compared, whatever heads stand on the encoder
        checkpoint = replace(checkpoint, network=Network(checkpoint.network.encoder, {}))
    return Model(checkpoint).quantise(list(islice(inputs, INT8_SAMPLE)))


def pick_device(named: str | None) -> str:
    """The device named, which must be there, or a GPU if there is one."""
    import torch

    if named is None or (named == "cuda" and torch.cuda.is_available()):  # each process has a GPU of its own
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones((), device=named).item()
    except (AssertionError, RuntimeError):  # as torch puts it where there is no such device
        raise NotFound(f"device {named!r} is not there; choose cpu or cuda, or leave --device out") from None
    return named


# ---- progress -----------------------------------------------------------------------------------------------------

_PATIENCE = 1.0  # seconds that nobody minds to wait without a word


@contextmanager
def progress(label: str, total: int | None, *, of_bytes: bool = False) -> Iterator[Progress]:
    """Draw a bar on stderr after a second, if somebody looks; the function given back is told how much more is done.

    What is printed meanwhile stands above the bar; where stdout is a file, it goes there and not to the terminal.
    """
    from rich import progress as rich
    from rich.console import Console

    count = rich.DownloadColumn() if of_bytes else rich.MofNCompleteColumn()
    bar = rich.Progress(
        *(rich.TextColumn("{task.description}"), rich.BarColumn(), count, rich.TimeRemainingColumn()),
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


# ---- training -----------------------------------------------------------------------------------------------------

CORPUS = "Files (.txt .jsonl .parquet, also .gz .xz .zst), folders, patterns, hub:owner/name."
DeviceOption = Annotated[str | None, Option(help="cpu or cuda. Default: cuda if there is one.")]
_LENGTHS = ("train.steps", "train.epochs", "train.minutes")


@dataclass(frozen=True)
class TrainingOptions:
    """The options of every training: what it changes of a recipe, and where and how it runs."""

    recipe: Path | None
    set_: list[str] | None
    device: str | None
    shard: bool = False
    tensorboard: bool = False

    def __post_init__(self) -> None:
        require(
            not self.shard or "WORLD_SIZE" in os.environ,
            "--shard needs several processes; start them with: torchrun --nproc-per-node 2 -m clearhead "
            f"{shlex.join(sys.argv[1:])}",
            BadInput,
        )

    def override(self, recipe: Recipe, **options: Any) -> Recipe:
        """Change a recipe by a recipe file, `--set` and the verb's own options; the last wins.

        A length that is named takes the place of those before it, whether they count steps, epochs or minutes.
        """
        from clearhead.training.settings import override, parse_settings, read_recipe

        own = {name.replace("__", "."): value for name, value in given(**options).items()}
        changes: dict[str, Any] = {}
        for layer in ({} if self.recipe is None else read_recipe(self.recipe), parse_settings(self.set_ or []), own):
            if any(layer.get(length) is not None for length in _LENGTHS):
                changes |= dict.fromkeys(_LENGTHS)
            changes |= layer
        return override(recipe, changes)

    def keywords(self) -> dict[str, Any]:
        """How a recipe is run; its card says what the user typed."""
        started = ["clearhead"]
        if "LOCAL_WORLD_SIZE" in os.environ:  # set by torchrun
            machines, processes = os.environ.get("GROUP_WORLD_SIZE", "1"), os.environ["LOCAL_WORLD_SIZE"]
            started = ["torchrun", "--nnodes", machines, "--nproc-per-node", processes, "-m", "clearhead"]
        switches = given(shard=self.shard or None, tensorboard=self.tensorboard or None)
        return {"device": pick_device(self.device), "command": shlex.join([*started, *sys.argv[1:]]), **switches}


_SET = "Change one value of the recipe: --set train.learning_rate=3e-5."
_SHARD = "Cut the network up among the processes that torchrun started, instead of copying it."
_SINGLE = {
    "recipe": (Path | None, Option(None, help="A TOML file that changes the recipe by name.")),
    "set_": (list[str] | None, Option(None, "--set", help=_SET)),
    "device": (DeviceOption, None),
}
_DISTRIBUTED = {
    "shard": (bool, Option(False, "--shard", help=_SHARD)),
    "tensorboard": (bool, Option(False, "--tensorboard", help="Write for TensorBoard too, in the run's folder.")),
}
SingleTraining = Annotated[TrainingOptions, Shared(TrainingOptions, **_SINGLE)]
Training = Annotated[TrainingOptions, Shared(TrainingOptions, **_SINGLE, **_DISTRIBUTED)]


def training_rows(result: "TrainResult", out: Path, made: str = "", **facts: object) -> Rows:
    """Say how a run ended, once, however many processes it had; `made` is in the folder if it was not interrupted.

    An interrupted run ends with what a shell expects of a program that a signal stopped: 130 after Ctrl-C, 143 after
    SIGTERM.
    """
    from clearhead.training.distributed import first_process

    interrupted = result.exit == "interrupted"
    if first_process():
        counts = "" if facts else f" and {result.tokens:,} tokens"
        facts = facts or {"tokens": result.tokens}
        outcome = "run the same command again to go on" if interrupted else f"{made} in {out}"
        record = {"folder": str(out), "exit": result.exit, "steps": result.step, **facts}
        yield record, [f"{result.exit} after {result.step:,} steps{counts}: {outcome}"]
    if interrupted:
        raise typer.Exit(128 + (result.signal or signal.SIGINT))


_COLUMNS = {
    "text": "Name of the column with the text (choose: context; tag: words; search: query).",
    "pair": "Name of the column with the second text (choose: choices; search: passage).",
    "label": "Name of the column with the label, score, tags or relevance.",
}
Columns = Annotated[
    dict[str, str], Shared(given, **{role: (str | None, Option(None, help=about)) for role, about in _COLUMNS.items()})
]


def one_file(files: Sequence[str], task: str) -> str:
    """Give the one file that tasks other than translation read."""
    if len(files) != 1:
        raise BadInput(f"{task} reads one file, not {len(files)} ({', '.join(files)}); join them first")
    return files[0]
