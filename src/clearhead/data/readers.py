"""Tables to examples: texts and pairs of texts with labels or scores, words with tags, choices."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from clearhead.data.columns import CLASSES, SCORES, choose, choose_texts, open_table
from clearhead.data.examples import ChoiceExample, Label, PairExample, TextExample, WordsExample
from clearhead.data.tables import Table
from clearhead.errors import BadInput, require

CONTEXTS = ("context", "ctx", "article", "question", "startphrase", "sent1")
ParseLabel = Callable[[object], Label]


def a_class(value: object) -> str:
    """One class: text as it stands, numbers without a needless fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    require(isinstance(value, str | int) and value != "", f"has {value!r} for a label", BadInput)
    return str(value)


def a_score(value: object) -> float:
    """A number, for regression."""
    try:
        score = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        score = math.nan
    require(math.isfinite(score), f"has {value!r} for a score, which is not a number", BadInput)
    return score


def a_grade(value: object) -> float:
    """How relevant a passage is to a query: 0 (not at all), 1, 2, …"""
    grade = a_score(value)
    require(grade >= 0 and grade.is_integer(), f"has {value!r} for a relevance; write 0, 1, 2, …,", BadInput)
    return grade


def some_classes(value: object) -> tuple[str, ...]:
    """Any number of classes: a list, or names between commas; empty means none of them."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list):
        raise BadInput(f"has {value!r} for labels; write a list, or names between commas,")
    return tuple(map(a_class, value))


def read_texts(
    source: str | Path,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    parse: ParseLabel = a_class,
) -> list[TextExample]:
    """Read texts or pairs with their labels; `parse` is a_class, a_score or some_classes.

    Without a label column, all labels are None.
    """
    table = open_table(source)
    first, second = choose_texts(table, text, pair)
    target = choose(table, "label", label, CLASSES if parse is a_class or parse is some_classes else SCORES)
    seconds = [None] * len(table) if second is None else strings(table, second)
    labels = [None] * len(table) if target is None else _parsed(table, target, parse)
    return list(map(TextExample, strings(table, first), seconds, labels))


def read_pairs(
    source: str | Path,
    *,
    first: str | None = None,
    second: str | None = None,
    score: str | None = None,
) -> list[PairExample]:
    """Read pairs of texts that belong together, with a score where there is a column of that name."""
    table = open_table(source)
    left, right = choose_texts(table, first, second, need_pair=True)
    target = choose(table, "score", score, SCORES[:-1])
    scores = [None] * len(table) if target is None else _parsed(table, target, a_score)
    return list(map(PairExample, strings(table, left), strings(table, str(right)), scores))  # type: ignore[arg-type]


def read_words(source: str | Path, *, words: str | None = None, tags: str | None = None) -> list[WordsExample]:
    """Read sentences that are lists of words, with a list of tags each, from json, jsonl, parquet or the hub."""
    table = open_table(source)
    column = choose(table, "words", words, ("words", "tokens"))
    require(column is not None, f"{table.name} has no column of words among {list(table.columns)}; name it.", BadInput)
    target = choose(table, "tags", tags, ("tags", "ner_tags", "pos_tags", "labels"))
    sentences = _lists(table, str(column))
    if target is None:
        return [WordsExample(tuple(sentence)) for sentence in sentences]
    marks = _lists(table, target)
    for row, (sentence, marked) in enumerate(zip(sentences, marks, strict=True)):
        same = len(sentence) == len(marked)
        require(same, f"{table.where(row)} has {len(sentence)} words and {len(marked)} tags.", BadInput)
    return [WordsExample(tuple(s), tuple(m)) for s, m in zip(sentences, marks, strict=True)]


def read_choices(
    source: str | Path,
    *,
    context: str | None = None,
    choices: str | Sequence[str] | None = None,
    label: str | None = None,
) -> list[ChoiceExample]:
    """Read what may follow a context: a column that is a list, or several columns (SWAG: ending0 … ending3).

    The label counts from 0, or is the right choice itself, or its letter (MuTual: A … D). A question beside the context
    (RACE: article, question) goes with each choice.
    """
    table = open_table(source)
    column = choose(table, "context", context, CONTEXTS)
    require(column is not None, f"{table.name} has no context among {list(table.columns)}; name its column.", BadInput)
    if choices is None:
        endings = tuple(name for name in table.columns if name.rstrip("0123456789") in ("ending", "choice", "option"))
        choices = endings or choose(table, "choices", None, ("choices", "endings", "options"))
    require(bool(choices), f"{table.name} has no choices among {list(table.columns)}; name their columns.", BadInput)
    if isinstance(choices, str):
        offered = _lists(table, choices)
    else:
        offered = [list(row) for row in zip(*(strings(table, name) for name in choices or ()), strict=True)]
    target = choose(table, "label", label, ("label", "answer", "answers"))
    answers = [None] * len(table) if target is None else _parsed(table, target, a_class)
    found = [
        choice_example(start, options, None if answer is None else str(answer), table.where(row))
        for row, (start, options, answer) in enumerate(zip(strings(table, str(column)), offered, answers, strict=True))
    ]
    asked = choose(table, "question", None, ("question",))
    if asked in (None, column):
        return found
    return [with_question(*pair) for pair in zip(found, strings(table, str(asked)), strict=True)]


def with_question(example: ChoiceExample, question: str) -> ChoiceExample:
    """Put the question before each choice."""
    return replace(example, choices=tuple(f"{question} {choice}" for choice in example.choices))


def choice_example(context: str, choices: Sequence[str], answer: str | None, where: str) -> ChoiceExample:
    """Find the right choice by its text, its number, counted from 0, or its letter, counted from A."""
    require(len(choices) >= 2, f"{where} has {len(choices)} choices; there must be 2 or more.", BadInput)
    if answer is None or answer in choices:
        return ChoiceExample(context, tuple(choices), None if answer is None else list(choices).index(answer))
    letter = ord(answer) - ord("A") if len(answer) == 1 and "A" <= answer <= "Z" else len(choices)
    number = int(answer) if answer.isdecimal() else letter
    require(number < len(choices), f"{where} has the label {answer!r}, which is none of its choices.", BadInput)
    return ChoiceExample(context, tuple(choices), number)


def strings(table: Table, column: str) -> list[str]:
    """The texts of a column."""
    values = table.column(column)
    for row, value in enumerate(values):
        require(isinstance(value, str), f"{table.where(row)} has {value!r} for {column!r}, which is no text.", BadInput)
    return values  # type: ignore[return-value]


def _lists(table: Table, column: str) -> list[list[str]]:
    found: list[list[str]] = []
    for row, value in enumerate(table.column(column)):
        if not (isinstance(value, list) and all(isinstance(item, str | int) for item in value)):
            raise BadInput(f"{table.where(row)} has {value!r} for {column!r}, which is no list of words.")
        found.append([str(item) for item in value])
    return found


def _parsed(table: Table, column: str, parse: ParseLabel) -> list[Label]:
    values = table.column(column)
    # the hub's test splits have no labels, and say so in every row
    if all(value is None for value in values):
        return [None] * len(values)
    labels: list[Label] = []
    for row, value in enumerate(values):
        try:
            labels.append(parse(value))
        except BadInput as error:
            raise BadInput(f"{table.where(row)} {error} in column {column!r}.") from None
    return labels
