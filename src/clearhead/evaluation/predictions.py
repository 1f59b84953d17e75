"""Files of predictions: JSON lines for every task, and the layouts of the official scripts."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead.data.examples import Example, QuestionExample, WordsExample
from clearhead.errors import BadInput, check_ids, require
from clearhead.evaluation import squad
from clearhead.evaluation.scores import Prediction, asked, gold_of
from clearhead.io import parse_json, read_lines, write_text

_NUMBERS = ("regress", "similar", "search")
_GLUE = "index\tprediction"
# the layout beside .jsonl: SQuAD's, conlleval's (word, gold tag, predicted tag), GLUE's, or one prediction a line
_LAYOUTS = {
    "answer": ("squad", (".json",)),
    "tag": ("conll", (".txt", ".conll", ".tsv", "")),
    "classify": ("glue", (".tsv",)),
    "regress": ("glue", (".tsv",)),
    "similar": ("glue", (".tsv",)),
    "translation": ("lines", (".txt", "")),
}


def write_predictions(
    task: str, path: Path, examples: Sequence[Example], rows: Sequence[Prediction], *, overwrite: bool = False
) -> None:
    """Write what a model said: JSON lines into a .jsonl file, else what the task's official script reads."""
    match _layout(task, path):
        case "squad":
            squad.write_predictions(path, {row["id"]: row["predicted"] for row in rows}, overwrite=overwrite)
            return
        case "conll":
            text = "".join(_conll(example, row) for example, row in zip(examples, rows, strict=True))
        case "glue":
            lines = [f"{number}\t{row['predicted']}" for number, row in enumerate(rows)]
            text = "\n".join([_GLUE, *lines]) + "\n"
        case "lines":
            text = "".join(" ".join(row["predicted"].split()) + "\n" for row in rows)
        case _:
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(text, path, overwrite=overwrite)


def check_name(task: str, path: Path) -> None:
    """Refuse a file that predictions of the task cannot be written to, before they are made."""
    _layout(task, path)


def _layout(task: str, path: Path) -> str:
    layout, suffixes = _LAYOUTS.get(task, ("", ()))
    if path.suffix in suffixes:
        return layout
    other = f" or {suffixes[0]}" if suffixes else ""
    message = f"{path}: predictions of {task} are written as JSON lines; name a .jsonl{other} file"
    require(path.suffix == ".jsonl" or task == "answer", message, BadInput)
    return "squad" if path.suffix != ".jsonl" else "jsonl"


def _conll(example: Any, row: Prediction) -> str:
    """A sentence, or several, as conlleval reads them."""
    lines = [" ".join(line) for line in zip(example.words, example.tags or (), row["predicted"], strict=True)]
    found, done = "", 0
    for count in example.sentences or [len(lines)]:
        found += "\n".join(lines[done : done + count]) + "\n\n"
        done += count
    return found


def read_predictions(task: str, path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """Read predictions in the order of the data (of answers: by their ids), as `write_predictions` writes them.

    A file that is none of these has one prediction a line.
    """
    lines = read_lines(path)
    if path.suffix == ".jsonl":
        rows = [_record(parse_json(line, f"{path}, line {n}"), f"{path}, line {n}") for n, line in enumerate(lines, 1)]
        for number, (row, example) in enumerate(zip(rows, examples, strict=False), start=1):
            for name, value in (*asked(example).items(), ("gold", gold_of(example))):
                same = row.get(name, value) == value
                fault = f"{path}, line {number} has another {name!r} than {example.where or f'example {number}'}"
                require(same, f"{fault}; give the predictions of this data, in its order", BadInput)
        return rows
    if task == "answer":
        texts = squad.read_predictions(path)
        asked_for = [example.id for example in examples if isinstance(example, QuestionExample)]
        check_ids(asked_for, texts, "prediction")
        return [{"predicted": texts[name]} for name in asked_for]
    if task == "tag":
        return list(_by_sentence(lines, examples))
    if lines[:1] == [_GLUE]:
        lines = [line.partition("\t")[2] for line in lines[1:]]
    parse = _number if task in _NUMBERS else _choice if task == "choose" else _classes if task == "label" else str
    return [{"predicted": parse(line)} for line in lines]


def _record(record: Any, where: str) -> Prediction:
    there = isinstance(record, dict) and ("predicted" in record or "summary" in record)
    require(there, f'{where} has no "predicted"; write one for each example', BadInput)
    return record if "predicted" in record else {**record, "predicted": record["summary"]}


def _by_sentence(lines: Sequence[str], examples: Sequence[Example]) -> Iterator[Prediction]:
    """The last column is the predicted tag; a line for each word, and empty ones between sentences."""
    tags = iter([line.split()[-1] for line in lines if line.strip()])
    there = sum(1 for line in lines if line.strip())
    wanted = sum(len(example.words) for example in examples if isinstance(example, WordsExample))
    require(there == wanted, f"there are {wanted} words and {there} predicted tags; give one for each", BadInput)
    for example in examples:
        if isinstance(example, WordsExample):
            yield {"predicted": [next(tags) for _ in example.words]}


def _number(line: str) -> Any:
    try:
        return float(line)
    except ValueError:
        return line  # refused where it is scored, with its place


def _choice(line: str) -> Any:
    return int(line) if line.isdecimal() else line


def _classes(line: str) -> list[str]:
    return [name.strip() for name in line.split(",") if name.strip()]
