"""`clearhead bulk USE …`: files of any size in, a file for each shard out, on one machine or many."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer import Argument, Option

from clearhead.cli.embed import VectorOptions
from clearhead.cli.generate import GenerationOptions
from clearhead.cli.options import (
    ModelOption,
    Shared,
    SkillOption,
    Verbs,
    comma_separated,
    given,
    layer_numbers,
    named_for,
    progress,
)
from clearhead.cli.render import Rows

ABOUT = """Do a use on every row of many files, however large: killed at any moment, the same command goes on.

Rows come from .parquet, .jsonl, .csv, .tsv and .txt files (.gz, .xz, .zst), go into one file for each shard, and keep
their order. Example: `clearhead bulk embed reviews/*.parquet --text body --out vectors`
"""
app = Verbs("bulk", ABOUT)

_INPUT = "Files, folders or patterns: .parquet, .jsonl, .csv, .tsv, .txt, all but parquet also .gz, .xz, .zst."
_OUT = "The folder of the results, a file for each shard; run the same command again to go on after a stop."
_ID = "The column that names a row. Default: id, or else the file and the line, as source and line."
_ON = "Who does it: local (processes here), ray (a cluster), torchrun (this is one of its ranks; taken by itself)."
_WORKERS = "How many at a time. Default: one for each GPU, or for each core."
_THREADS = "Threads of a worker on a CPU; part of what a run is, since other numbers may round differently."
_DEVICE = "cpu, cuda, or auto: a GPU where there is one."
_DTYPE = "float32, float16 or bfloat16. Default: float32 on a CPU, half precision on a GPU."
_RESTART = "Begin anew in a folder that holds another run, which is removed first."
_PREFIX = "Put before the names of the columns with results, where the files have columns of the same name."
_SHARD = "Rows of a shard, at most: what is lost when a worker is killed."


@dataclass(frozen=True)
class BulkOptions:
    """What all uses share: where rows come from and go to, and who does the work."""

    inputs: list[str]
    out: Path
    text: str | None
    pair: str | None
    ids: str | None
    keep: list[str] | None
    result_prefix: str
    how: str
    on: str | None
    workers: int | None
    threads: int
    device: str
    dtype: str | None
    shard_rows: int
    restart: bool


def _shared(*, pairs: tuple[str, str] | None, text: str, computes: bool) -> Any:
    first, second = pairs or (text, "")
    columns: dict[str, tuple[Any, Any]] = {
        "text": (str | None, Option(None, help=f"The column with the {first}. Default: one with a usual name."))
    }
    if pairs is not None:
        columns["pair"] = (str | None, Option(None, help=f"The column with the {second}. Default: likewise."))
    made: Callable[..., BulkOptions] = BulkOptions if pairs is not None else _of_one_text
    numbers: dict[str, tuple[Any, Any]] = {
        "device": (str, Option("auto", help=_DEVICE)),
        "dtype": (str | None, Option(None, help=_DTYPE)),
    }
    if not computes:
        made, numbers = partial(made, device="cpu", dtype=None), {}
    return Annotated[
        BulkOptions,
        Shared(
            made,
            inputs=(list[str], Argument(..., help=_INPUT)),
            out=(Path, Option(..., help=_OUT)),
            **columns,
            ids=(str | None, Option(None, "--id", help=_ID)),
            keep=(list[str] | None, Option(None, help="Another column to copy; may be given more than once.")),
            result_prefix=(str, Option("", help=_PREFIX)),
            how=(str, Option("parquet", "--format", help="parquet or jsonl.")),
            on=(str | None, Option(None, help=_ON)),
            workers=(int | None, Option(None, help=_WORKERS)),
            threads=(int, Option(1, help=_THREADS)),
            **numbers,
            shard_rows=(int, Option(1 << 15, help=_SHARD)),
            restart=(bool, Option(False, "--restart", help=_RESTART)),
        ),
    ]


def _of_one_text(**options: Any) -> BulkOptions:
    return BulkOptions(pair=None, **options)


def _run(use: str, shared: BulkOptions, model: str | None, skill: str | None, options: dict[str, Any]) -> Rows:
    """Do what is left, with progress, and say what came of it; exit code 1 where shards were given up."""
    from clearhead.bulk.run import left_over, opened, run

    worker = {"use": use, "model": model, "skill": skill, **options}
    worker |= {name: getattr(shared, name) for name in ("text", "pair", "result_prefix", "threads", "device", "dtype")}
    how: Any = shared.how
    rows = {"ids": shared.ids, "keep": shared.keep or (), "how": how}
    with opened(worker, shared.inputs, shared.out, **rows, shard_rows=shared.shard_rows, restart=shared.restart) as job:
        left = left_over(job)
        if 0 < len(left) < len(job.shards):
            typer.echo(f"going on: {len(job.shards) - len(left):,} of {len(job.shards):,} shards are done", err=True)
        total = sum(job.shards[number].rows for number in left)
        try:
            with progress(f"bulk {use}", total, rate=True) as advance:
                found = run(job, on=shared.on, workers=shared.workers, progress=advance)
        except KeyboardInterrupt:
            done = len(job.finished())
            told = f"{done:,} of {len(job.shards):,} shards are done; run the same command again to go on"
            typer.echo(f"\ninterrupted: {told}", err=True)
            raise typer.Exit(130) from None
    lines = [f"{_counted(found.rows, 'row')} in {_counted(found.shards - len(found.failed), 'file')} in {found.folder}"]
    if found.errors:
        without = f"{_counted(found.errors, 'row')} {'has' if found.errors == 1 else 'have'} no result"
        lines.append(f"{without}; the column {shared.result_prefix}error says why")
    for one in found.failed:
        lines.append(f"given up: shard {one.shard} ({one.source}, from line {one.line:,}): {one.why}")
    yield found.to_dict(), lines
    if found.failed:
        typer.echo("run the same command again to try what was given up", err=True)
        if "TORCHELASTIC_RUN_ID" not in os.environ:  # torchrun would end the other ranks too
            raise typer.Exit(1)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _add(
    use: str,
    about: str,
    options: dict[str, tuple[Any, Any]] | None = None,
    *,
    pairs: tuple[str, str] | None = None,
    text: str = "text",
    made: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    skills: bool = False,
    model: Any = ModelOption,
    computes: bool = True,
) -> None:
    """Make the verb of a use; `made` turns its options, as typed, into those of `Worker`."""
    own = Annotated[dict[str, Any], Shared(given, **(options or {}))]

    def with_skill(shared: Any, model: Any = None, skill: Any = None, options: Any = None) -> Rows:
        yield from _run(use, shared, model, skill, made(options))

    def without(shared: Any, model: Any = None, options: Any = None) -> Rows:
        yield from _run(use, shared, model, None, made(options))

    verb: Any = with_skill if skills else without
    verb.__name__, verb.__doc__ = use, about
    verb.__annotations__ = {
        "shared": _shared(pairs=pairs, text=text, computes=computes),
        "model": model,
        "skill": SkillOption,
    }
    verb.__annotations__ |= {"options": own, "return": Rows}
    app.verb(verb)


_TOP_K: dict[str, tuple[Any, Any]] = {"top_k": (int | None, Option(None, help="How many labels. Default: all."))}
_LAYERS = "Layers to take, from 0 (the embeddings) or from -1 (the last): -4,-3,-2,-1."
_VECTOR_OPTIONS: dict[str, tuple[Any, Any]] = {
    **get_args(VectorOptions)[1].options,
    "precision": (str, Option("float32", help="float32 or binary.")),
}


def _vector_options(options: dict[str, Any]) -> dict[str, Any]:
    """Only what is not as it is anyway, so that a run that Python began is the same one."""
    usual = {"layers": [-1], "combine": "mean", "precision": "float32"}
    typed = {**options, "layers": layer_numbers(options["layers"])}
    return {name: value for name, value in typed.items() if value != usual.get(name)}


def _listed(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def made(options: dict[str, Any]) -> dict[str, Any]:
        return {**options, **given(**{name: comma_separated(options.get(name))})}

    return made


_WRITING = {
    name: one
    for name, one in get_args(GenerationOptions)[1].options.items()
    if name != "num_return_sequences"  # which would be several rows
}
_MOST: dict[str, tuple[Any, Any]] = {"max_new_tokens": (int | None, Option(None, help="Most new tokens."))}
_LABELS = "Labels of your own, separated by commas."
_STRATEGY = "How tokens become entities: first, simple, average or max. Default: first."
_FROM = "The language of the texts. Default of the one built in: that of each text."
_BEAMS = "Beams of the search; 1 is greedy. Default: the model's own, or 4."
_CANDIDATES = "Rank only these words, separated by commas."

_add(
    "embed",
    "A vector for each text: a column of lists of equal length.\n\n"
    "Example: `clearhead bulk embed reviews/*.parquet --text body --out vectors`",
    {"layers": (str, Option("-1", help=_LAYERS)), **_VECTOR_OPTIONS},
    made=_vector_options,
    skills=True,
)
_add(
    "classify",
    "The classes of each text.\n\n"
    "Example: `clearhead bulk classify reviews.jsonl.zst --skill sentiment --keep stars --out judged`",
    _TOP_K,
    skills=True,
)
_add(
    "zero-shot",
    "Which of your labels fits each text.\n\n"
    "Example: `clearhead bulk zero-shot news.csv --text headline --labels sport,money,weather --out sorted`",
    {
        "labels": (str, Option(..., help=_LABELS)),
        "hypothesis_template": (str | None, Option(None, help="The sentence to be judged, with {} for the label.")),
        "multi_label": (bool | None, Option(None, "--multi-label", help="Several labels may fit.")),
        **_TOP_K,
    },
    made=_listed("labels"),
    skills=True,
)
_add(
    "tag",
    "The entities of each text, and every word with its label.\n\n"
    "Example: `clearhead bulk tag letters/ --no-words --out entities`",
    {
        "aggregation_strategy": (
            str | None,
            Option(None, help=_STRATEGY),
        ),
        "words": (bool | None, Option(None, "--words/--no-words", help="Every word's label too; the default.")),
    },
    skills=True,
)
_add(
    "answer",
    "The answer to the question of each row in its context: a verbatim slice, or none.\n\n"
    "Example: `clearhead bulk answer questions.parquet --text question --pair context --out answers`",
    {
        "top_k": (int | None, Option(None, help="How many candidates, the best first. Default: 1.")),
        "threshold": (float | None, Option(None, help="By how much “no answer” may be better; inf: always answer.")),
        "max_answer_length": (int | None, Option(None, help="Most tokens of an answer. Default: 30.")),
    },
    pairs=("questions", "contexts"),
    skills=True,
)
_add(
    "fill",
    "Words for the masks of each text; a row without a mask has an error.\n\n"
    "Example: `clearhead bulk fill masked.txt --top-k 3 --out filled`",
    {
        "top_k": (int | None, Option(None, help="How many words for each mask. Default: 5.")),
        "candidates": (str | None, Option(None, help=_CANDIDATES)),
    },
    made=_listed("candidates"),
)
_add(
    "compare",
    "The classes of each pair of texts: entailment, paraphrase, a similarity.\n\n"
    "Example: `clearhead bulk compare pairs.tsv --text premise --pair hypothesis --out judged`",
    _TOP_K,
    pairs=("first texts", "second texts"),
    skills=True,
)
_add(
    "follows",
    "Whether the second text of each row follows the first.\n\n"
    "Example: `clearhead bulk follows pairs.tsv --text first --pair second --out judged`",
    pairs=("first texts", "second texts"),
)
_add(
    "choose",
    "The candidate that fits the context of each row best; the candidates are a list.\n\n"
    "Example: `clearhead bulk choose swag.jsonl --text context --pair choices --out chosen --model ./chooser`",
    pairs=("contexts", "candidates"),
)
_add(
    "rerank",
    "The passages of each row, a list, by how probably they are what its query looks for.\n\n"
    "Example: `clearhead bulk rerank found.parquet --text query --pair passages --out ranked --model ./cross-encoder`",
    {"top_k": (int | None, Option(None, help="How many passages. Default: all."))},
    pairs=("queries", "passages"),
    skills=True,
)
_add(
    "summarise",
    "The sentences that say most of each text, or with --abstractive a summary in other words.\n\n"
    "Example: `clearhead bulk summarise articles.parquet --text body --sentences 2 --out summaries`",
    {
        "sentences": (int | None, Option(None, help="How many sentences to keep. Default: 3.")),
        "abstractive": (bool | None, Option(None, "--abstractive", help="In the model's own words, by a generator.")),
        **_MOST,
    },
)
_add(
    "translate",
    "Each text in another language, sentence by sentence.\n\n"
    "Example: `clearhead bulk translate comments.csv --text comment --from de --to en --out english`",
    {
        "src_lang": (
            str | None,
            Option(None, "--from", help=_FROM),
        ),
        "tgt_lang": (str | None, Option(None, "--to", help="The language to translate to.")),
        "num_beams": (
            int | None,
            Option(None, help=_BEAMS),
        ),
        "length_penalty": _WRITING["length_penalty"],
        "prefix": (str | None, Option(None, help="Put before every sentence, as a T5 wants it.")),
    },
    model=named_for("translate"),
)
_add(
    "tokenize",
    "The tokens of each text, for `clearhead pretrain --corpus` on a folder of them.\n\n"
    "Example: `clearhead bulk tokenize wiki/*.jsonl.zst --tokenizer ./my-tokenizer --out tokens`",
    model=Annotated[str | None, Option("--tokenizer", help="A folder with a tokenizer. Default: the built-in one.")],
    computes=False,
)
_add(
    "generate",
    "New text from the prompt of each row.\n\n"
    "Example: `clearhead bulk generate prompts.jsonl --text prompt --max-new-tokens 64 --out texts --model ./my-gpt`",
    {**_MOST, **_WRITING},
    text="prompt",
    model=named_for("generate"),
)
