"""`clearhead evaluate`: the official metrics of a model on a task, or of answers in a file."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from clearhead.cli.options import (
    DEFAULT,
    AllowUnknownOption,
    Columns,
    DeviceOption,
    JsonOption,
    SkillOption,
    Verbs,
    claim,
    expect_many,
    given,
    one_file,
    pick_device,
    progress,
)
from clearhead.cli.render import Line, Row, Rows, aligned
from clearhead.errors import BadInput, NotFound, require

if TYPE_CHECKING:
    from clearhead.evaluation.scores import Evaluated
    from clearhead.pipelines.ensemble import Ensemble
    from clearhead.pipelines.model import Model

app = Verbs()
_MEMORY = (
    "Of perplexity: how many tokens before it a part of a long text knows. XLNet remembers them as its layers saw them "
    "(Transformer-XL), a GPT reads them again."
)
_NBEST = "Of answer: a file for the model's 20 best; without --model or --skill, those to score."
_NO_ANSWER = (
    "Of answer: a file for SQuAD 2.0's null odds, by how much no answer scores above the best one; without --model or "
    "--skill, those of the --predictions to score."
)
_SEVERAL = (
    "Several are an ensemble, measured by the mean of their probabilities: of classify, label, regress, choose, answer."
)
_TABLE = "Print the lectures' tables with measured metrics, and measure nothing."


@app.verb
def evaluate(
    *,
    task: str | None = Argument(
        None,
        help="classify, label, regress, tag, answer, choose, similar, instruct, search, translation; summaries, "
        "by ROUGE; or perplexity, exp of the mean loss of a token: of 15 % of them, hidden from a masked model, or "
        "of each after a text's first, as a GPT, XLNet, an LSTM or a GRU guesses it from those before.",
    ),
    data: list[str] | None = Option(
        None,
        help="The data to measure on, in the formats of finetune; for search: query, passage, relevance; for "
        "perplexity: texts, in those of pretrain; for summaries: texts and references, in those of translation, "
        "or, to score --predictions, references alone. Of other tasks several files are measured one by one: "
        "MNLI's matched and mismatched.",
    ),
    models: list[str] | None = Option(None, "--model", "-m", help=f"{DEFAULT} {_SEVERAL}"),
    skill: SkillOption = None,
    predictions: Path | None = Option(
        None,
        help="A file for what the model says, also of data without labels (GLUE's and SQuAD's test sets); without "
        "--model or --skill, the predictions to score. JSON lines in a "
        ".jsonl file; also SQuAD's .json (answer), conlleval's columns (tag), GLUE's .tsv (classify, regress, "
        "similar), or one a line (translation).",
    ),
    nbest: Path | None = Option(None, help=_NBEST),
    no_answer: Path | None = Option(None, help=_NO_ANSWER),
    overwrite: bool = Option(False, "--overwrite", help="Replace predictions that are there already."),
    bootstrap: int = Option(
        0, help="Give a 95 % interval beside each metric, over so many samples of the examples; 1000 is usual."
    ),
    allow_unknown_labels: AllowUnknownOption = False,
    documents: bool = Option(False, "--documents", help="Of tag: whole documents of a CoNLL file, not sentences."),
    memory: int = Option(0, help=_MEMORY),
    columns: Columns,
    table: bool = Option(False, "--table", help=_TABLE),
    figures: Path | None = Option(None, help="Of --table: a JSON file of your metrics. Default: the built-in model's."),
    markdown: bool = Option(False, "--markdown", help="Of --table: print markdown."),
    device: DeviceOption = None,
    json: JsonOption = False,
) -> Rows:
    """Measure a model on a task, or score answers in a file, by the official definitions.

    Examples: `clearhead evaluate answer --data dev-v1.1.json --model ./my-reader --predictions answers.json`,
    `clearhead evaluate answer --data dev-v1.1.json --predictions answers.json`,
    `clearhead evaluate classify --data dev.tsv -m ./seed-0 -m ./seed-1 -m ./seed-2`,
    `clearhead evaluate summaries --data references.txt --predictions summaries.txt`,
    `clearhead evaluate perplexity --data novel.txt`, `clearhead evaluate --table`
    """
    if table:
        from clearhead.evaluation.results import as_json, as_markdown, as_text, read_measured, tables
        from clearhead.hub.remote import find, unasked

        require(task is None and not data, "--table measures nothing; leave the task and --data out", BadInput)
        write = as_json if json else as_markdown if markdown else as_text
        typer.echo(write(tables(read_measured(figures or find(unasked()) / "figures.json"))), nl=False)
        return
    if markdown or figures is not None:
        raise BadInput(f"{'--markdown' if markdown else '--figures'} goes with --table; add it")
    if task is None or not data:
        raise BadInput("name a task and its --data, or a --table to print")
    task = "summaries" if task == "summarise" else task  # as the task is called where it is learnt
    files = given(predictions=predictions, nbest=nbest, no_answer=no_answer)
    by_model = bool(models) or skill is not None
    require(not memory or task == "perplexity", f"--memory is for perplexity, not for {task}; leave it out", BadInput)
    _check_options(task, models or [], skill, files, columns, documents=documents, bootstrap=bootstrap)
    if task == "summaries" and files and not by_model:
        yield _score_summaries(data, files["predictions"], columns.get("pair"), bootstrap)
        return
    if len(data) > 1 and task not in _TEXTS_ALONE:
        one = f"{', '.join(f'--{name}' for name in files)} of {len(data)} files would be one; name one --data at a time"
        require(not files, one, BadInput)
        expect_many()
        sets = {file: _read_examples(task, [file], columns, documents=documents) for file in data}
        loaded = _load(models or [None], skill, device)
        yield from _measure_each(task, sets, loaded, allow_unknown=allow_unknown_labels, bootstrap=bootstrap)
        return
    examples = _read_examples(task, data, columns, documents=documents)
    if files and not by_model:
        yield _row(task, data, len(examples), _score_files(task, examples, files, bootstrap))
        return
    from clearhead.evaluation.perplexity import evaluate_texts
    from clearhead.evaluation.predictions import check_name, write_predictions
    from clearhead.evaluation.scores import Evaluated
    from clearhead.evaluation.squad import LISTED, decide, write_nbest, write_no_answer
    from clearhead.evaluation.tasks import EVALUATIONS

    if task != "translation":
        expect_many()
    if predictions is not None:
        check_name(task, predictions)
    with claim(predictions, nbest, no_answer, overwrite=overwrite):
        able: Any = _load(models or [None], skill, device, dtype="float32")
        with progress("measuring", len(examples) + bootstrap) as advance:
            if task == "perplexity":
                found = Evaluated(metrics=evaluate_texts(able, examples, memory=memory, progress=advance))
            else:
                more: dict[str, Any] = {} if nbest is None else {"top_k": LISTED}
                more |= {"unlabelled": bool(files), "bootstrap": bootstrap}
                allow = allow_unknown_labels
                found = EVALUATIONS[task](able, examples, progress=advance, allow_unknown=allow, **more)
        if predictions is not None:
            write_predictions(task, predictions, examples, found.predictions, overwrite=overwrite)
        lists = {row["id"]: row["candidates"] for row in found.predictions} if task == "answer" else {}
        if nbest is not None:
            write_nbest(nbest, lists, overwrite=overwrite)
        if no_answer is not None:
            write_no_answer(no_answer, decide(lists)[1], overwrite=overwrite)
    yield _row(task, data, len(examples), found)


def _load(
    models: Sequence[str | None], skill: str | None, device: str | None, dtype: str | None = None
) -> "Model | Ensemble":
    from clearhead.pipelines.ensemble import Ensemble
    from clearhead.pipelines.model import load

    loaded = [load(model, skill=skill, device=pick_device(device), dtype=dtype) for model in models]
    return loaded[0] if len(loaded) == 1 else Ensemble(tuple(loaded))


def _measure_each(
    task: str, sets: dict[str, list[Any]], model: "Model | Ensemble", *, allow_unknown: bool, bootstrap: int
) -> Rows:
    """Measure a model on each of several files."""
    from clearhead.evaluation.tasks import EVALUATIONS

    for file, examples in sets.items():
        with progress(f"measuring {Path(file).name}", len(examples) + bootstrap) as advance:
            found = EVALUATIONS[task](
                model, examples, progress=advance, allow_unknown=allow_unknown, bootstrap=bootstrap
            )
        record, lines = _row(task, [file], len(examples), found)
        yield record, [f"{file}:", *lines]


def _score_files(task: str, examples: list[Any], files: dict[str, Path], bootstrap: int) -> "Evaluated":
    """Score predictions in a file, or in SQuAD's files of several kinds."""
    from clearhead.evaluation.predictions import read_predictions
    from clearhead.evaluation.scores import Evaluated
    from clearhead.evaluation.squad import score_files
    from clearhead.evaluation.tasks import EVALUATIONS

    if task == "answer" and (len(files) > 1 or "predictions" not in files or files["predictions"].suffix != ".jsonl"):
        plain = "a bootstrap of answers wants them as JSON lines (.jsonl), which evaluate --predictions writes"
        require(not bootstrap, plain, BadInput)
        return Evaluated(metrics=score_files(examples, **files))
    path = files["predictions"]
    require(path.is_file(), f"There is no file {path} to score; to write one, name a --model or --skill", NotFound)
    rows = read_predictions(task, path, examples)
    with progress("drawing samples", bootstrap) if bootstrap else nullcontext() as advance:
        return EVALUATIONS[task].measured(examples, rows, bootstrap=bootstrap, progress=advance)


_TOGETHER = ("classify", "label", "regress", "choose", "answer")  # what an ensemble is measured on
_TEXTS_ALONE = {
    "translation": "translation is of two texts",
    "perplexity": "perplexity is of plain texts",
    "summaries": "summaries are of a text",
}


def _check_options(
    task: str,
    models: Sequence[str],
    skill: str | None,
    files: dict[str, Path],
    columns: Columns,
    *,
    documents: bool,
    bootstrap: int,
) -> None:
    """Refuse options that mean nothing to the task."""
    fits = bootstrap == 0 or bootstrap >= 100
    require(fits, f"--bootstrap takes 100 samples or more, got {bootstrap}; 1000 is usual", BadInput)
    fits = not bootstrap or task != "perplexity"
    require(
        fits,
        "perplexity is a mean over running text, of which no examples can be drawn; leave --bootstrap out",
        BadInput,
    )
    for name in ("nbest", "no_answer"):
        fits = name not in files or task == "answer"
        require(fits, f"--{name.replace('_', '-')} belongs to the task answer, not to {task}; leave it out", BadInput)
    fits = "predictions" not in files or task != "perplexity"
    require(fits, "perplexity is of texts as they are, without --predictions; leave it out", BadInput)
    fits = not documents or task == "tag"
    require(fits, f"--documents belongs to the task tag, not to {task}; leave it out", BadInput)
    fits = len(models) < 2 or task in _TOGETHER
    told = f"an ensemble gives the mean of probabilities, which {task} has none of"
    require(fits, f"{told}; name one --model, or measure one of {', '.join(_TOGETHER)}", BadInput)
    fits = task != "translation" or bool(models) or "predictions" in files
    require(fits, "the built-in model does not translate; name a --model that does", BadInput)
    if task in _TEXTS_ALONE:
        names = "column names" if task == "perplexity" else "--label"
        fits = skill is None and not (columns if task == "perplexity" else columns.get("label"))
        require(fits, f"{_TEXTS_ALONE[task]} by the model itself; leave --skill and {names} out", BadInput)


def _read_examples(task: str, data: list[str], columns: Columns, *, documents: bool) -> list[Any]:
    """The examples of a task; of perplexity, texts."""
    if task in ("translation", "summaries"):
        from clearhead.data.seq2seq import read_parallel

        return read_parallel(data, first=columns.get("text"), second=columns.get("pair"))
    if task == "perplexity":
        from clearhead.data.corpus import Corpus

        return list(Corpus(data).documents())
    from clearhead.training.recipes.finetune import find_reader

    examples = find_reader(task)(one_file(data, task), columns)
    if documents:
        from clearhead.data.formats import join_documents

        return join_documents(examples)
    return examples


def _score_summaries(data: list[str], predictions: Path, column: str | None, bootstrap: int) -> Row:
    """ROUGE of the summaries in a file against the references: of two files, the second."""
    from dataclasses import replace

    from clearhead.data.examples import PairExample
    from clearhead.errors import check_lengths
    from clearhead.evaluation.bootstrap import by_example, intervals
    from clearhead.evaluation.rouge import read_summaries
    from clearhead.evaluation.scores import score_summaries

    if len(data) > 2:
        raise BadInput(f"{len(data)} files are no references; give one, or the texts and their references")
    references, summaries = read_summaries(data[-1], column), read_summaries(predictions)
    check_lengths(references, summaries, "summaries")
    examples = [PairExample("", reference) for reference in references]
    rows = [{"predicted": summary} for summary in summaries]
    found = score_summaries(examples, rows)
    if bootstrap:
        drawn = by_example(score_summaries, examples, rows, None)
        with progress("drawing samples", bootstrap) as advance:
            found = replace(found, intervals=intervals(drawn, found.metrics, bootstrap, progress=advance))
    return _row("summaries", data, len(examples), found)


def _row(task: str, data: list[str], examples: int, found: "Evaluated") -> Row:
    one = len(data) == 1 and task != "translation"
    return {"task": task, "data": data[0] if one else data, "examples": examples, **found.to_dict()}, evaluated_lines(
        found
    )


_MOST_SHOWN = 12  # classes whose confusion fits a terminal, and mistakes that are named where it does not


def evaluated_lines(found: "Evaluated") -> Iterator[Line]:
    """The metrics, what F1 they mean, each class, and which is taken for which."""
    if not found.metrics:
        yield "the data has no right answers to compare with: nothing is measured, what the model says is written"
    width = max(17, *map(len, found.named()), 0)
    for metric, value in found.metrics.items():
        note = found.notes.get(f"{metric}_signature") or ("(one side is constant)" if isnan(value) else "")
        ends = found.intervals.get(metric)
        around = "" if ends is None else f"  [{_figure(ends[0])}, {_figure(ends[1])}]"
        yield f"{found.name(metric):<{width}} {'–' if isnan(value) else _figure(value)}{around}  {note}".rstrip()
    if found.unknown:
        counted = [f"{label} ({count:,} examples)" for label, count in list(found.unknown.items())[:_MOST_SHOWN]]
        more = f" and {len(found.unknown) - len(counted)} more" if len(found.unknown) > len(counted) else ""
        yield f"labels that the model does not know count as wrong: {', '.join(counted)}{more}"
    if found.classes:
        rows = [(name, *map(_figure, score.to_dict().values())) for name, score in found.classes.items()]
        yield from aligned(("class", "precision", "recall", "f1", "support"), rows)
    if found.confusion is not None and len(found.confusion.labels) <= _MOST_SHOWN:
        table = zip(found.confusion.labels, found.confusion.counts, strict=True)
        yield from aligned(
            ("is ↓  said →", *found.confusion.labels), [(n, *(f"{c:,}" for c in row)) for n, row in table]
        )
    elif found.confusion is not None:
        mistakes = found.confusion.mistakes()[:_MOST_SHOWN]
        yield from aligned(("is", "said", "times"), [(gold, guess, f"{count:,}") for gold, guess, count in mistakes])


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
