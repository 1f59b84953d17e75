"""What verbs share: `Verbs`, which makes commands of functions; texts, models and training options; progress."""

import inspect
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import accumulate, chain, islice, tee
from pathlib import Path
from threading import Event, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, cast

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from clearhead.cli.render import Rows, print_rows, shorten
from clearhead.errors import BadInput, NotFound, require
from clearhead.hub.remote import BOX, BUILT_IN, unasked
from clearhead.io import Progress, check_free_file, check_free_folder, claimed, is_run

if TYPE_CHECKING:
    from clearhead.client.client import Client
    from clearhead.pipelines.model import Model
    from clearhead.training.loop import TrainResult
    from clearhead.training.recipes.published import RecipeFile

TextOrTexts = TypeVar("TextOrTexts", str, list[str])
Given = TypeVar("Given")
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


@dataclass(frozen=True)
class Output:
    """Where a verb writes, which is its own until it ends, and whether what is there may go."""

    path: Path
    overwrite: bool


class Written(Shared):
    """Metadata of a parameter that is an `Output`, or None where it was left out: an option, and with it --overwrite.

    What is there already is refused, and so is what another process writes to, before anything is computed. A "run"
    goes on in the folder of one.
    """

    def __init__(self, option: str, annotation: Any, default: Any, kind: Literal["file", "folder", "run"]) -> None:
        overwrite = (bool, Option(False, "--overwrite", help="Replace what is there already."))
        super().__init__(self._claim, **{option: (annotation, default), "overwrite": overwrite})
        self._kind = kind

    @contextmanager
    def _claim(self, *, overwrite: bool, **named: Path | None) -> Iterator[Output | None]:
        (path,) = named.values()
        with claim(path, overwrite=overwrite, kind=self._kind):
            yield None if path is None else Output(path, overwrite)


@contextmanager
def claim(*paths: Path | None, overwrite: bool, kind: Literal["file", "folder", "run"] = "file") -> Iterator[None]:
    """Keep others away from what will be written while it is made; refuse what is there already, unless told."""
    first = os.environ.get("RANK", "0") == "0"  # torchrun's others write nothing
    with ExitStack() as claims:
        for path in paths:
            if path is not None and first:
                claims.enter_context(claimed(path, run=kind == "run"))
            if path is not None and kind == "file":
                check_free_file(path, overwrite=overwrite)
            elif path is not None:
                check_free_folder(path, own=kind == "run" and is_run(path), overwrite=overwrite)
        yield


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
        options |= {"json": (JsonOption, False), "ctx": (typer.Context, inspect.Parameter.empty)}

        said = [name for name, (annotation, _) in options.items() if SAID in getattr(annotation, "__metadata__", ())]

        def command(*, json: bool, ctx: typer.Context, **own_values: Any) -> None:
            for name in said:
                if name != "texts" or not own_values["files"]:  # beside --in they are more files
                    check_said(ctx, own_values[name])
            made = {}
            with ExitStack() as claims:
                # where nothing can be written, nothing need be loaded
                for name, one in sorted(shared.items(), key=lambda item: not isinstance(item[1], Written)):
                    value = one.make(**{of: own_values.pop(of) for of in one.options})
                    made[name] = claims.enter_context(value) if isinstance(one, Written) else value
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
# and one that took a model, and is a switch now: the model is another option's
SWITCHES = {"--rerank": "--rerank-with"}


class Command(TyperCommand):
    """A verb that still takes the old names of options, and several files after `--data` and `--dev`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write new names for old ones with a warning; write `--data` again before each further file.

        So the task of `finetune` must stand before its options: `translation --data train.en train.de`.
        """
        known = {name for parameter in self.params for name in parameter.opts}
        ctx.meta[_AS_IT_IS] = args[args.index("--") + 1 :] if "--" in args else []
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
            elif SWITCHES.get(name) in known and (equals or _names_a_model(args[place + 1 :])):
                new = SWITCHES[name]
                typer.echo(
                    f"warning: {name} MODEL is now called {new}; the old name goes with the next release", err=True
                )
                arg = new + equals + value
            elif name.startswith("--") and name not in known and "--set" in known:
                _refuse_setting(name, value or next(iter(args[place + 1 :]), "…"))
            if arg.startswith("-"):
                option = arg if arg in known & {"--data", "--dev"} else None
            elif option is not None and spread[-1] != option:
                spread.append(option)
            spread.append(arg)
        return super().parse_args(ctx, spread)


def _names_a_model(following: Sequence[str]) -> bool:
    """Whether what stands after an option is a model: a folder with one, a built-in one, or a name on the hub."""
    if not following:
        return False
    name = following[0]
    named = name.startswith(BUILT_IN) or (re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and not _is_path(name))
    return named or (_is_path(name) and (Path(name) / "config.json").is_file())


def _refuse_setting(option: str, value: str) -> None:
    """Say how to write what is no option but a value of the recipe, such as --lr or --epochs."""
    from clearhead.training.settings import SYNONYMS, Settings

    name = option.removeprefix("--").replace("-", "_")
    names = [f"train.{name}"] if name in {spec.name for spec in fields(Settings)} else SYNONYMS.get(name)
    if names is not None:
        raise BadInput(f"there is no {option}; write {' or '.join(f'--set {one}={value}' for one in names)}")


# ---- texts: arguments, files, or stdin ----------------------------------------------------------------------------

# One rule for all verbs: an argument is text, `--in` names files and folders, "-" is stdin. An argument that could be
# meant as a file is refused, unless it stands after "--".
SAID = "said"  # metadata of an argument that is text
_AS_IT_IS = "clearhead.as_it_is"  # where a command keeps the arguments that stand after "--"
_ENDS_LIKE_A_FILE = re.compile(
    r"\S+\.(?:txt|text|md|rst|log|jsonl?|csv|tsv|html?|pdf|docx?|odt|xml|parquet|zip)(?:\.(?:gz|xz|zst))?",
    re.IGNORECASE,
)
_BEGINS_LIKE_A_PATH = re.compile(r"(?:\.{1,2}|~|/\w+)/\S+")
# characters that are computed before the first result is printed, and at most between two prints
_FIRST_CHARACTERS, _MOST_CHARACTERS = 1 << 14, 1 << 17
_CHARACTERS_OF_NOTHING = 8  # an empty text has its special tokens

TextsArgument = Annotated[list[str] | None, Argument(help='Texts, or "-" for stdin; with --in, more files.'), SAID]
InOption = Annotated[list[str] | None, Option("--in", help="A file with a text a line, a table, or a folder of them.")]
DocumentOption = Annotated[bool, Option("--document", help="Read each file, or stdin, as one text, not a text a line.")]
TEXTS: dict[str, tuple[Any, Any]] = {
    "texts": (TextsArgument, None),
    "files": (InOption, None),
    "document": (DocumentOption, False),
}


def check_said(ctx: typer.Context, said: str | Sequence[str] | None) -> None:
    """Refuse an argument that is the name of a file, or looks like one, where a text is wanted."""
    reads = any("--in" in one.opts for one in ctx.command.params)
    texts = [said] if isinstance(said, str) else list(said or ())
    if not reads:  # then this is all
        expect_few(*texts)
    for text in texts:
        if text == "-" or text in ctx.meta[_AS_IT_IS]:
            continue
        shown = shlex.quote(text)
        if _is_path(text):
            todo = f"read it with --in {shown}" if reads else f'give what is in it, as in "$(cat {shown})"'
            wrong = f"is a {'folder' if Path(text).is_dir() else 'file'}; {todo}"
        elif _is_like_a_path(text):
            wrong = (
                f"looks like a file, and there is none of that name; {'name files with --in' if reads else 'check it'}"
            )
        else:
            continue
        raise BadInput(f"{text!r} {wrong}, or put -- before it if these letters are the text")


def _is_path(text: str) -> bool:
    try:
        return bool(text.strip(".")) and Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        return False


def _is_like_a_path(text: str) -> bool:
    ends = _ENDS_LIKE_A_FILE.fullmatch(text) is not None and "://" not in text
    return ends or _BEGINS_LIKE_A_PATH.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Text:
    """A text that was given, and where it stands: a line of a file or of stdin, or all of it."""

    text: str
    source: str | None = None  # None: an argument
    line: int | None = None

    def record(self) -> dict[str, Any]:
        """As JSON has it: what was a document is named, and not said again."""
        if self.source is not None and self.line is None:
            return {"source": self.source}
        return {**({} if self.line is None else {"source": self.source, "line": self.line}), "text": self.text}

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        if self.line is None:
            return self.source or ""
        return f"line {self.line}" if self.source == "-" else f"{self.source}:{self.line}"


class Texts:
    """Texts as they come; those that were looked at are still there. `total` is how many, if that is known."""

    def __init__(self, texts: Iterable[Text], total: int | None) -> None:
        self._rest = iter(texts)
        self.total = total

    def __iter__(self) -> Iterator[Text]:
        return self._rest

    def first(self, count: int) -> list[Text]:
        """Look at the first texts."""
        seen = list(islice(self._rest, count))
        self._rest = chain(seen, self._rest)
        return seen

    def checked(self) -> Self:
        """Refuse if there is nothing in them; only as much is read as is needed to know that."""
        blank = []
        for one in self._rest:
            blank.append(one)
            if one.text.strip():
                break
        nonempty([one.text for one in blank])
        self._rest = chain(blank, self._rest)
        return self

    def parts(self) -> Iterator[list[Text]]:
        """Lists of them, as `in_parts` cuts them."""
        return in_parts(self._rest, lambda one: len(one.text))


def in_parts(given: Iterable[Given], characters: Callable[[Given], int]) -> Iterator[list[Given]]:
    """Lists of what was given: few at first, so that results come soon, and of a slow pipe what is there."""
    part: list[Given] = []
    most, size, begun = _FIRST_CHARACTERS, 0, monotonic()
    for one in given:
        part.append(one)
        size += characters(one) + _CHARACTERS_OF_NOTHING
        if size >= most or monotonic() - begun > _PATIENCE:
            yield part
            most = min(2 * most, _MOST_CHARACTERS)
            part, size, begun = [], 0, monotonic()
    if part:
        yield part


def each(label: str, texts: Texts, use: Any, **options: Any) -> Iterator[tuple[Text, Any]]:
    """Every text with what `use` makes of it, as soon as it is made, with progress."""
    with progress(label, texts.total) as advance:
        for part in texts.parts():
            found = use([one.text for one in part], progress=advance, **options)
            yield from zip(part, found, strict=True)


def each_written(label: str, texts: Texts, use: Any, **options: Any) -> Iterator[tuple[Text, Any]]:
    """The same for what writes, which gives the texts of an iterator as they are written, from one random stream."""
    with progress(label, None) as advance:
        given, read = tee(texts)
        yield from zip(given, use((one.text for one in read), progress=advance, **options), strict=True)


def read_texts(texts: Sequence[str] | None = None, files: Sequence[str] | None = None, document: bool = False) -> Texts:
    """Texts from the command line, of files, or (with "-" or nothing given) of stdin; a line each, or all of it."""
    given = list(texts or [])
    if files:
        wrong = [one for one in given if not Path(one).exists()]
        require(not wrong, f"give texts or --in FILE, not both ({', '.join(wrong[:3])})", BadInput)
        return _of_files([*files, *given], document=document)
    if given and given != ["-"]:
        require(not document, "--document is for files and stdin; a text that is an argument is read whole", BadInput)
        expect_few(*given)
        return Texts(map(Text, given), len(given))
    if sys.stdin.isatty():
        raise BadInput("no text given; write it as an argument, name a file with --in, or pipe it in")
    return _of_stdin(document=document)


def _of_files(files: Sequence[str], *, document: bool) -> Texts:
    from clearhead.data.documents import find_files, read_by_line, read_documents

    expect_many()
    if "-" in files:
        require(list(files) == ["-"], "stdin is read alone; leave the other files out", BadInput)
        return _of_stdin(document=document)
    written = [one for one in files if not _is_path(one) and any(map(str.isspace, one))]
    require(
        not written, f"there is no file {shorten(''.join(written[:1]))!r}; a text is an argument of its own", NotFound
    )
    found = find_files(files, note)
    if document:
        texts = (Text(one.text, one.source) for one in read_documents(found, note))
        return Texts(texts, None)
    total = _count_lines(found[0]) if len(found) == 1 else None
    return Texts((Text(text, source, line) for source, line, text in read_by_line(found, note)), total)


def _count_lines(file: Path) -> int | None:
    """How many lines a plain file has: only progress hangs on it."""
    from clearhead.io import content_suffix

    if content_suffix(file) != file.suffix or file.suffix in (".pdf", ".html", ".htm") or not file.is_file():
        return None
    with file.open("rb") as content:
        return sum(block.count(b"\n") for block in iter(partial(content.read, 1 << 20), b"")) or 1


def _of_stdin(*, document: bool) -> Texts:
    from clearhead.data.documents import decoded, decoded_lines

    expect_many()
    stream: Any = getattr(sys.stdin, "buffer", None)  # bytes, whatever the terminal's language is
    if document:
        return Texts([Text(decoded(stream.read(), "stdin", note) if stream else sys.stdin.read(), "-")], 1)
    lines = decoded_lines(stream, "stdin", note) if stream else (line.removesuffix("\n") for line in sys.stdin)
    return Texts((Text(line, "-", number) for number, line in enumerate(lines, start=1)), None)


def note(sentence: str) -> None:
    """Say what was left out or guessed, on stderr."""
    typer.echo(f"note: {sentence}", err=True)


def given_texts(
    texts: Sequence[str] | None = None, files: Sequence[str] | None = None, document: bool = False
) -> Texts:
    """The texts as `read_texts` gives them; refused if there is nothing in them."""
    return read_texts(texts, files, document).checked()


def whole_texts(texts: Sequence[str] | None = None, files: Sequence[str] | None = None) -> Texts:
    """The same where each file, and stdin, is one text."""
    return given_texts(texts, files, document=bool(files) or list(texts or ["-"]) == ["-"])


GivenTexts = Annotated[Texts, Shared(given_texts, **TEXTS)]
AnyTexts = Annotated[Texts, Shared(read_texts, **TEXTS)]  # empty ones too


def nonempty(texts: TextOrTexts) -> TextOrTexts:
    """Refuse an empty text, or texts that are all empty; the callback of arguments that are one text."""
    require(any(map(str.strip, texts)), "the text is empty; give some words", BadInput)
    return texts


def expect_many() -> None:
    """Keep memory constant over many texts; to be said before the first of them is computed.

    oneDNN, and torch's layer above it, keep what they prepared for each number of tokens: hundreds of megabytes over a
    long file, where to prepare it anew takes no time that could be measured. For one short text, or for writing token
    by token, it doubles the time.
    """
    for kept, count in (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"), ("LRU_CACHE_CAPACITY", "1")):
        os.environ.setdefault(kept, count)


_FEW_CHARACTERS = 2000


def expect_few(*texts: str) -> None:
    """Compute short texts with one thread; to be said before torch is imported.

    Its threads wait for each other by turning in a circle: where the machine has other work, that takes more of the
    processor than all that is computed for a line.
    """
    if sum(map(len, texts)) <= _FEW_CHARACTERS:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


# ---- pairs of texts: two arguments, rows of tables, or stdin ------------------------------------------------------

_PAIRS = 'A table of two texts a row (.tsv, .csv, .jsonl, .json, .parquet); "-": lines of stdin with a tab between.'
PAIRS: dict[str, tuple[Any, Any]] = {
    "first": (Annotated[str | None, Argument(help="One text."), SAID], None),
    "second": (Annotated[str | None, Argument(help="The other text."), SAID], None),
    "files": (Annotated[list[str] | None, Option("--in", help=_PAIRS)], None),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that were given, and where they stand: a row of a table, counted as its lines are, or of stdin."""

    first: str
    second: str
    source: str | None = None  # None: two arguments
    line: int | None = None

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        place = {} if self.source is None else {"source": self.source, "line": self.line}
        return {**place, "first": self.first, "second": self.second}

    def __str__(self) -> str:
        return f"{shorten(self.first, 40)} | {shorten(self.second, 40)}"


def given_pairs(
    first: str | None = None, second: str | None = None, files: Sequence[str] | None = None
) -> tuple[Iterable[Pair], int | None]:
    """Pairs from the command line, of tables, or of stdin, and how many, if that is known."""
    if files:
        require(first is None, f"give two texts or --in FILE, not both ({shorten(str(first))!r})", BadInput)
    elif first not in (None, "-") or second is not None:
        two = first is not None and second is not None
        require(two, f"{shorten(str(first))!r} is one text of a pair; give the other too", BadInput)
        pair = Pair(nonempty(str(first)), nonempty(str(second)))
        expect_few(pair.first, pair.second)
        return [pair], 1
    elif first is None and sys.stdin.isatty():
        raise BadInput("no pair given; write two texts as arguments, name a table with --in, or pipe one in")
    expect_many()
    if not files or "-" in files:
        require(len(files or "-") == 1, "stdin is read alone; leave the other files out", BadInput)
        return _pairs_of_stdin(), None
    found = [pair for file in files for pair in _pairs_of_file(file)]
    return found, len(found)


def _pairs_of_file(file: str) -> Iterator[Pair]:
    from clearhead.data.formats import strings
    from clearhead.data.tables import open_pairs

    table = open_pairs(file)
    for first, second, line in zip(strings(table, "first"), strings(table, "second"), table.numbers, strict=True):
        yield Pair(first, second, file, line)


def _pairs_of_stdin() -> Iterator[Pair]:
    for one in _of_stdin(document=False).checked():
        fields = one.text.split("\t")
        told = f"stdin, line {one.line} has {len(fields)} columns, not 2"
        require(len(fields) == 2, f"{told}; write two texts with a tab between them", BadInput)
        first, second = fields
        yield Pair(first, second, one.source, one.line)


GivenPairs = Annotated[tuple[Iterable[Pair], int | None], Shared(given_pairs, **PAIRS)]


def each_pair(
    label: str, given: tuple[Iterable[Pair], int | None], use: Any, **options: Any
) -> Iterator[tuple[Pair, Any]]:
    """Every pair with what `use` makes of it, as soon as it is made, with progress."""
    pairs, total = given
    with progress(label, total) as advance:
        for part in in_parts(pairs, lambda one: len(one.first) + len(one.second)):
            found = use([one.first for one in part], [one.second for one in part], progress=advance, **options)
            yield from zip(part, found, strict=True)


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

CHECKPOINT = f"A checkpoint folder, a name on the Hugging Face hub, or one of {', '.join(map(BUILT_IN.__add__, BOX))}."
DEFAULT = f"{CHECKPOINT} Default: {unasked()}."
ModelOption = Annotated[str | None, Option("--model", "-m", help=DEFAULT)]
UNKNOWN = "Count labels that the model does not know as wrong, and say how many; without it they are refused."
AllowUnknownOption = Annotated[bool, Option("--allow-unknown-labels", help=UNKNOWN)]
SkillOption = Annotated[str | None, Option(help="A skill of the model: its name, or a folder that holds one.")]
INT8_SAMPLE = 200  # inputs that are looked at; with fewer, nothing would be won
_INT8_CHARACTERS = 40_000  # of those on which int8 must agree, since all of them are read twice
INT8 = f"Multiply in 8 bits, where there are {INT8_SAMPLE} texts or more; refused if the first come out different."
Int8Option = Annotated[bool, Option("--int8", help=INT8)]


def load_model(model: str | None, skill: str | None = None, *, use: str | None = None) -> "Model":
    """Load what --model and --skill name, or the built-in model for a use."""
    from clearhead.pipelines.model import load

    return load(unasked(use) if model is None else model, skill=skill)


def named_for(use: str) -> Any:
    """The option --model of a use which has a built-in model of its own."""
    return Annotated[str | None, Option("--model", "-m", help=f"{CHECKPOINT} Default: {unasked(use)}.")]


Loaded = Annotated["Model", Shared(load_model, model=(ModelOption, None))]
LoadedWithSkill = Annotated["Model", Shared(load_model, model=(ModelOption, None), skill=(SkillOption, None))]
LoadedGenerator = Annotated["Model", Shared(partial(load_model, use="generate"), model=(named_for("generate"), None))]

# ---- models of a service ------------------------------------------------------------------------------------------

SERVER = "Ask the `clearhead serve` at this address, and load no model here; --model is then an id of the service."
ServerOption = Annotated[str | None, Option("--server", envvar="CLEARHEAD_SERVER", metavar="URL", help=SERVER)]
_SERVER: dict[str, tuple[Any, Any]] = {"server": (ServerOption, None)}


def reach_model(model: str | None, server: str | None, skill: str | None = None, *, use: str | None = None) -> "Model":
    """The model of a service, where --server names one, which has the same methods; else load it."""
    if server is None:
        return load_model(model, skill, use=use)
    from clearhead.client.client import connect

    named = model if skill is None else f"{model or 'built-in'}:{skill}"
    return cast("Model", connect(server, model=named))


def at_a_service(model: object) -> "Client | None":
    """The client of a service, where that is what has the methods of a model."""
    imported = sys.modules.get("clearhead.client.client")  # only for --server
    return model if imported is not None and isinstance(model, imported.Client) else None


AnyModel = Annotated["Model", Shared(reach_model, model=(ModelOption, None), **_SERVER)]
AnyModelWithSkill = Annotated[
    "Model", Shared(reach_model, model=(ModelOption, None), skill=(SkillOption, None), **_SERVER)
]
AnyGenerator = Annotated[
    "Model", Shared(partial(reach_model, use="generate"), model=(named_for("generate"), None), **_SERVER)
]
AnyTranslator = Annotated[
    "Model", Shared(partial(reach_model, use="translate"), model=(named_for("translate"), None), **_SERVER)
]


def reach_summariser(model: str | None, abstractive: bool, server: str | None) -> tuple["Model", bool]:
    """What --model names, or the built-in model for this kind of summary, and which kind it is."""
    return reach_model(model, server, use="generate" if abstractive else None), abstractive


def quantised(model: "Model", use: str, inputs: Iterable[Any]) -> "Model":
    """The model for a use in 8 bits; refused where that changes the results of the first inputs.

    Of few inputs, measuring would take longer than reading: for them the model stays as it is.
    """
    told = "--int8 is for a model that is loaded here; a service is started with it: clearhead serve --int8"
    require(at_a_service(model) is None, told, BadInput)
    from clearhead.nn.heads import Network
    from clearhead.pipelines.int8 import sample_size
    from clearhead.pipelines.model import Model

    model.able("quantise")  # an ELMo can embed, and has no Transformer to be made smaller
    checkpoint = model.able(use).checkpoint
    first = list(islice(inputs, INT8_SAMPLE))
    sizes = [len(one) if isinstance(one, str) else sum(map(len, one)) for one in first]
    ends = accumulate(sizes)
    within = sum(end - size < _INT8_CHARACTERS for end, size in zip(ends, sizes, strict=True))
    count = min(within, sample_size(checkpoint.network))
    if len(first) < INT8_SAMPLE and 3 * sum(sizes[:count]) >= sum(sizes):
        note(f"so few texts ({len(first)}) are read sooner than int8 is measured on them; --int8 is left out")
        return model
    if use in ("embed", "search"):  # then vectors are compared, whatever heads stand on the encoder
        checkpoint = replace(checkpoint, network=Network(checkpoint.network.encoder, {}))
    return Model(checkpoint).quantise(first[:count])


def sample(texts: Texts) -> list[str]:
    """The texts by which int8 is judged."""
    return [one.text for one in texts.first(INT8_SAMPLE)]


def pick_device(named: str | None) -> str:
    """The device named, which must be there ("auto" is CUDA, MPS or the CPU), or CUDA if there is one."""
    import torch

    if named == "auto":
        from clearhead.pipelines.model import pick_device as first_there

        return str(first_there(named))
    if named is None or (named == "cuda" and torch.cuda.is_available()):  # each process has a GPU of its own
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones((), device=named).item()
    except (AssertionError, RuntimeError):  # as torch puts it where there is no such device
        raise NotFound(f"device {named!r} is not there; choose cpu or cuda, or leave --device out") from None
    return named


# ---- progress -----------------------------------------------------------------------------------------------------

_PATIENCE = 1.0  # seconds that nobody minds to wait without a word
_PLAIN_PATIENCE, _PLAIN_MOST = 5.0, 30.0  # seconds before the first line where no terminal is, and at most between two


@contextmanager
def progress(label: str, total: int | None, *, of_bytes: bool = False, rate: bool = False) -> Iterator[Progress]:
    """Draw a bar on stderr after a second; the function given back is told how much more is done.

    With `rate` it says how many a second.

    What is printed meanwhile stands above the bar; where stdout is a file, it goes there and not to the terminal. Where
    stderr is no terminal, a line now and then says how far it is, unless CLEARHEAD_QUIET is set.
    """
    if not sys.stderr.isatty():
        with _plain_progress(label, total, of_bytes, rate) as plain:
            yield plain
        return
    from rich import progress as rich
    from rich.console import Console

    count = rich.DownloadColumn() if of_bytes else rich.MofNCompleteColumn()
    speed = [rich.TextColumn("{task.fields[speed]} a second")] if rate else []
    bar = rich.Progress(
        *(rich.TextColumn("{task.description}"), rich.BarColumn(), count, *speed, rich.TimeRemainingColumn()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    task, begun, done = bar.add_task(label, total=total, speed="0"), monotonic(), 0
    late = Timer(_PATIENCE, bar.start)
    late.daemon = True
    late.start()

    def advance(more: int) -> None:
        nonlocal done
        done += more
        bar.update(task, advance=more, speed=f"{done / (monotonic() - begun):,.0f}")

    try:
        yield advance
    finally:
        late.cancel()
        late.join()
        bar.stop()


@contextmanager
def _plain_progress(label: str, total: int | None, of_bytes: bool, rate: bool) -> Iterator[Progress]:
    begun, done, over = monotonic(), 0, Event()

    def advance(more: int) -> None:
        nonlocal done
        done += more

    def amount(count: int) -> str:
        return f"{count / 1e6:,.1f} MB" if of_bytes else f"{count:,}"

    def report() -> None:
        while not over.wait(min(max(_PLAIN_PATIENCE, (monotonic() - begun) / 4), _PLAIN_MOST)):
            if total is not None and done >= total:  # what is waited for is something else
                continue
            spent = monotonic() - begun
            line = f"{label}: {amount(done)}{'' if total is None else f' of {amount(total)}'} in {spent:,.0f} s"
            if rate:
                line += f", {done / spent:,.1f} a second"
            if total is not None and 0 < done < total:
                line += f", about {spent * (total - done) / done:,.0f} s left"
            typer.echo(line, err=True)

    reporter = Thread(target=report, daemon=True)
    if not os.environ.get("CLEARHEAD_QUIET"):
        reporter.start()
    try:
        yield advance
    finally:
        over.set()
        if reporter.ident is not None:
            reporter.join()


# ---- training -----------------------------------------------------------------------------------------------------

CORPUS = "Files (.txt .jsonl .parquet, also .gz .xz .zst), folders, patterns, hub:owner/name."
DeviceOption = Annotated[str | None, Option(help="cpu, cuda, mps or auto. Default: cuda if there is one.")]
_LENGTHS = ("train.steps", "train.epochs", "train.minutes")


@dataclass(frozen=True)
class TrainingOptions:
    """The options of every training: what it changes of a recipe, and where and how it runs."""

    recipe: str | None
    set_: list[str] | None
    device: str | None
    restart: bool
    more: bool
    shard: bool = False
    tensorboard: bool = False
    track: list[str] | None = None

    def __post_init__(self) -> None:
        one = not (self.restart and self.more)
        require(one, "--restart begins anew and --more goes on; choose one of the two", BadInput)
        require(
            not self.shard or "WORLD_SIZE" in os.environ,
            "--shard needs several processes; start them with: torchrun --nproc-per-node 2 -m clearhead "
            f"{shlex.join(sys.argv[1:])}",
            BadInput,
        )

    def read_recipe(self, verb: str | None = None) -> "RecipeFile":
        """The recipe that was named, or an empty one; one of another verb is refused."""
        from clearhead.training.recipes.published import RecipeFile, find_recipe

        file = RecipeFile("", {}) if self.recipe is None else find_recipe(self.recipe)
        file.check_verb(verb)
        return file

    def override(self, recipe: Recipe, *, verb: str | None = None, new: bool = True, **options: Any) -> Recipe:
        """Change a recipe by a recipe file, `--set` and the verb's own options; the last wins.

        A length that is named takes the place of those before it, whether they count steps, epochs or minutes. `verb`
        is whose recipes have a name, `new` whether its model is.
        """
        from clearhead.training.settings import override, parse_settings

        own = {name.replace("__", "."): value for name, value in given(**options).items()}
        file = self.read_recipe(verb).changes_for(pick_device(self.device), new=new)
        changes: dict[str, Any] = {}
        for layer in (file, parse_settings(self.set_ or []), own):
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
        if self.track:
            from clearhead.training.trackers import make_trackers

            make_trackers(self.track)  # before any work, that a package is missing
        named = {name: getattr(self, name) for name in ("restart", "more", "shard", "tensorboard", "track")}
        switches = {name: value for name, value in named.items() if value}
        return {"device": pick_device(self.device), "command": shlex.join([*started, *sys.argv[1:]]), **switches}


_RUN = "The folder of the run and, in the end, of the model."
RunFolder = Annotated[Output, Written("out", Path, Option(..., help=_RUN), "run")]
OptionalRunFolder = Annotated[Output | None, Written("out", Path | None, Option(None, help=_RUN), "run")]
_RECIPE = "A TOML file that changes the recipe by name; of pretrain and distil also a published one, such as bert-2018."
_SET = "Change one value of the recipe: --set train.learning_rate=3e-5."
_RESTART = "Begin anew in a folder that holds another run, which is removed when this one is ready to begin."
_MORE = "Go on from a run that is over, for the longer time that is asked for now: --set train.epochs=4 after 3."
_SHARD = "Cut the network up among the processes that torchrun started, instead of copying it."
_TRACK = (
    "Tell every row of the run to tensorboard, mlflow, wandb (offline, unless WANDB_MODE=online) or trackio, which "
    "write on this machine, unless their own variables name a server; may be given several times."
)
_SINGLE = {
    "recipe": (str | None, Option(None, help=_RECIPE)),
    "set_": (list[str] | None, Option(None, "--set", help=_SET)),
    "device": (DeviceOption, None),
    "restart": (bool, Option(False, "--restart", help=_RESTART)),
    "more": (bool, Option(False, "--more", help=_MORE)),
}
_DISTRIBUTED = {
    "shard": (bool, Option(False, "--shard", help=_SHARD)),
    "tensorboard": (bool, Option(False, "--tensorboard", help="The same as --track tensorboard.")),
    "track": (list[str] | None, Option(None, "--track", help=_TRACK)),
}
SingleTraining = Annotated[TrainingOptions, Shared(TrainingOptions, **_SINGLE)]
Training = Annotated[TrainingOptions, Shared(TrainingOptions, **_SINGLE, **_DISTRIBUTED)]


def was_over(result: "TrainResult") -> bool:
    """Whether the run had ended before this command, which trained nothing."""
    return result.exit != "interrupted" and result.began == result.step


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
        before = " before, and trained no further" if was_over(result) else ""
        yield record, [f"{result.exit}{before} after {result.step:,} steps{counts}: {outcome}"]
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
