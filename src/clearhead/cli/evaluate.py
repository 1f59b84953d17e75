"""`clearhead evaluate`: the official metrics of a model on a task, or of answers in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from clearhead.cli.options import (
    Columns,
    DeviceOption,
    JsonOption,
    ModelOption,
    SkillOption,
    Verbs,
    expect_many,
    given,
    one_file,
    pick_device,
    progress,
)
from clearhead.cli.render import Row, Rows
from clearhead.errors import BadInput, require

if TYPE_CHECKING:
    from clearhead.evaluation.tasks import Metrics

app = Verbs()
_NBEST = "Of answer: a file for the model's 20 best; without --model or --skill, those to score."
_NO_ANSWER = "Of answer, with --predictions to score: SQuAD 2.0's no-answer probabilities."
_TABLE = "Print the lectures' tables with measured metrics, and measure nothing."


@app.verb
def evaluate(
    *,
    task: str | None = Argument(
        None,
        help="classify, label, regress, tag, answer, choose, similar, instruct, search, translation; summaries, "
        "by ROUGE; or perplexity, exp of the mean loss of a token: of 15 % of them, hidden from a masked model, or "
        "of each after a text's first, as a GPT, an LSTM or a GRU guesses it from those before.",
    ),
    data: list[str] | None = Option(
        None,
        help="The data to measure on, in the formats of finetune; for search: query, passage, relevance; for "
        "perplexity: texts, in those of pretrain; for summaries: texts and references, in those of translation, "
        "or, to score --predictions, references alone.",
    ),
    model: ModelOption = None,
    skill: SkillOption = None,
    predictions: Path | None = Option(
        None,
        help="Of answer: a file for the model's answers; without --model or --skill, the answers to score. Of "
        "summaries likewise: one a line, or .jsonl.",
    ),
    nbest: Path | None = Option(None, help=_NBEST),
    no_answer: Path | None = Option(None, help=_NO_ANSWER),
    documents: bool = Option(False, "--documents", help="Of tag: whole documents of a CoNLL file, not sentences."),
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
    `clearhead evaluate summaries --data references.txt --predictions summaries.txt`,
    `clearhead evaluate perplexity --data novel.txt`, `clearhead evaluate --table`
    """
    if table:
        from clearhead.evaluation.results import as_json, as_markdown, as_text, read_measured, tables
        from clearhead.hub.remote import builtin_folder

        require(task is None and not data, "--table measures nothing; leave the task and --data out", BadInput)
        write = as_json if json else as_markdown if markdown else as_text
        typer.echo(write(tables(read_measured(figures or builtin_folder() / "figures.json"))), nl=False)
        return
    if markdown or figures is not None:
        raise BadInput(f"{'--markdown' if markdown else '--figures'} goes with --table; add it")
    if task is None or not data:
        raise BadInput("name a task and its --data, or a --table to print")
    files = given(predictions=predictions, nbest=nbest, no_answer=no_answer)
    by_model = model is not None or skill is not None
    _check_options(task, model, skill, list(files), columns, documents=documents)
    if task == "summaries" and files and not by_model:
        yield _score_summaries(data, files["predictions"], columns.get("pair"))
        return
    examples = _read_examples(task, data, columns, documents=documents)
    if files and not by_model:
        from clearhead.evaluation.squad import score_files

        yield _row(task, data, len(examples), score_files(examples, **files))
        return
    from clearhead.evaluation.tasks import EVALUATIONS
    from clearhead.evaluation.translation import evaluate_translation
    from clearhead.pipelines.model import load

    if task != "translation":
        expect_many()
    loaded = load(model, skill=skill, device=pick_device(device))
    with progress("measuring", len(examples)) as advance:
        if task != "translation":
            measure: Any = EVALUATIONS[task]
            yield _row(task, data, len(examples), measure(loaded, examples, progress=advance, **files))
            return
        found = evaluate_translation(loaded.generator, examples, progress=advance)
    lines = [f"{name:<17} {found[name]:.2f}  {found[f'{name}_signature']}" for name in ("bleu", "chrf")]
    yield {"task": task, "data": data, "examples": len(examples), **found}, lines


_TEXTS_ALONE = {
    "translation": "translation is of two texts",
    "perplexity": "perplexity is of plain texts",
    "summaries": "summaries are of a text",
}


def _check_options(
    task: str, model: str | None, skill: str | None, files: list[str], columns: Columns, *, documents: bool
) -> None:
    """Refuse options that mean nothing to the task."""
    if files and task != "answer" and not (task == "summaries" and files == ["predictions"]):
        owners = "tasks answer and summaries" if files[0] == "predictions" else "task answer"
        raise BadInput(f"--{files[0].replace('_', '-')} belongs to the {owners}, not to {task}; leave it out")
    fits = not documents or task == "tag"
    require(fits, f"--documents belongs to the task tag, not to {task}; leave it out", BadInput)
    fits = (model is None and skill is None) or "no_answer" not in files
    require(fits, "--no-answer goes with --predictions to score; leave it out, or --model and --skill", BadInput)
    fits = task != "translation" or model is not None
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


def _score_summaries(data: list[str], predictions: Path, column: str | None) -> Row:
    """ROUGE of the summaries in a file against the references: of two files, the second."""
    from clearhead.evaluation.rouge import read_summaries, score_summaries

    if len(data) > 2:
        raise BadInput(f"{len(data)} files are no references; give one, or the texts and their references")
    references = read_summaries(data[-1], column)
    return _row("summaries", data, len(references), score_summaries(references, read_summaries(predictions)))


def _row(task: str, data: list[str], examples: int, metrics: "Metrics") -> Row:
    record = {"task": task, "data": data[0] if len(data) == 1 else data, "examples": examples, **metrics}
    lines = [f"{name:<17} {value:{',' if isinstance(value, int) else '.2f'}}" for name, value in metrics.items()]
    return record, lines
