"""Files to examples: tables of texts, pairs, words and choices; SQuAD, CoNLL and DREAM."""

import logging
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from clearhead.data.examples import ChoiceExample, Label, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.data.tables import CLASSES, SCORES, Source, Table, choose, choose_texts, need, open_table
from clearhead.errors import BadInput, require
from clearhead.io import read_json, read_lines

log = logging.getLogger(__name__)

PROMPTS = ("prompt", "instruction", "question", "input")
ANSWERS = ("answer", "output", "response", "completion")
CONTEXTS = ("context", "ctx", "article", "question", "startphrase", "sent1")
Value = TypeVar("Value")


def parse_class(value: object) -> str:
    """One class: text as it stands, numbers without a needless fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    require(isinstance(value, str | int) and value != "", f"has {value!r} for a label", BadInput)
    return str(value)


def parse_score(value: object) -> float:
    """A number, for regression."""
    try:
        score = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        score = math.nan
    require(math.isfinite(score), f"has {value!r} for a score, which is not a number", BadInput)
    return score


def parse_grade(value: object) -> float:
    """How relevant a passage is to a query: 0 (not at all), 1, 2, …"""
    grade = parse_score(value)
    require(grade >= 0 and grade.is_integer(), f"has {value!r} for a relevance; write 0, 1, 2, …", BadInput)
    return grade


def parse_classes(value: object) -> tuple[str, ...]:
    """Any number of classes: a list, or names between commas; empty means none of them."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list):
        raise BadInput(f"has {value!r} for labels; write a list, or names with commas between")
    return tuple(map(parse_class, value))


def read_texts(
    source: Source,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    parse: Callable[[object], Label] = parse_class,
) -> list[TextExample]:
    """Read texts or pairs with their labels; `parse` is parse_class, parse_score or parse_classes.

    Without a label column, all labels are None.
    """
    table = open_table(source)
    first, second = choose_texts(table, text, pair)
    target = choose(table, "label", label, CLASSES if parse is parse_class or parse is parse_classes else SCORES)
    table = _agreed(table, target)
    seconds = [None] * len(table) if second is None else strings(table, second)
    return list(map(TextExample, strings(table, first), seconds, _parsed(table, target, parse), table.places()))


def _agreed(table: Table, label: str | None) -> Table:
    """Leave out pairs on whose label people did not agree: "-" as SNLI and MNLI write it, nothing on the hub."""
    if label is None or not (label == "gold_label" or table.name.startswith("hub:")):
        return table
    labels = table.column(label)
    kept = [row for row, value in enumerate(labels) if value not in ("-", None)]
    if not kept or len(kept) == len(table):  # a test split has no labels at all
        return table
    log.warning("%s: %d pairs without an agreed label are left out", table.name, len(table) - len(kept))
    return table.keep(kept)


def read_pairs(
    source: Source, *, first: str | None = None, second: str | None = None, score: str | None = None
) -> list[PairExample]:
    """Read pairs of texts that belong together, with a score and a text that does not belong where columns say so."""
    table = open_table(source)
    left, right = choose_texts(table, first, second, need_pair=True)
    scores = _parsed(table, choose(table, "score", score, SCORES[:-1]), parse_score)
    other = choose(table, "negative", None, ("negative",))
    negatives = [None] * len(table) if other is None else [one or None for one in strings(table, other)]
    return list(map(PairExample, strings(table, left), strings(table, str(right)), scores, table.places(), negatives))


def read_instructions(source: Source, *, text: str | None = None, pair: str | None = None) -> list[PairExample]:
    """Read prompts (column `text`, or a usual name) and their answers (`pair`) from a table or the hub."""
    table = open_table(source)
    prompt, answer = need(table, "prompt", text, PROMPTS), need(table, "answer", pair, ANSWERS)
    answers = strings(table, answer)
    empty = next((row for row, one in enumerate(answers) if not one.strip()), None)
    require(empty is None, f"{table.where(empty or 0)} has an empty answer; fill it, or leave it out.", BadInput)
    return list(map(PairExample, strings(table, prompt), answers, [None] * len(table), table.places()))


def read_words(source: str | Path, *, words: str | None = None, tags: str | None = None) -> list[WordsExample]:
    """Read sentences that are lists of words, with a list of tags each, from json, jsonl, parquet or the hub."""
    table = open_table(source)
    sentences = _lists(table, need(table, "words", words, ("words", "tokens")))
    target = choose(table, "tags", tags, ("tags", "ner_tags", "pos_tags", "labels"))
    places = list(table.places())
    if target is None:
        return [WordsExample(words, where=place) for words, place in zip(sentences, places, strict=True)]
    marks = _lists(table, target)
    for row, (sentence, marked) in enumerate(zip(sentences, marks, strict=True)):
        same = len(sentence) == len(marked)
        told = f"{table.where(row)} has {len(sentence)} words and {len(marked)} tags"
        require(same, f"{told}; give each word one.", BadInput)
    rows = zip(sentences, marks, places, strict=True)
    return [WordsExample(words, tags, where=place) for words, tags, place in rows]


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
    column = need(table, "context", context, CONTEXTS)
    if choices is None:
        endings = tuple(name for name in table.columns if name.rstrip("0123456789") in ("ending", "choice", "option"))
        choices = endings or need(table, "choices", None, ("choices", "endings", "options"))
    if isinstance(choices, str):
        offered = _lists(table, choices)
    else:
        offered = list(zip(*(strings(table, name) for name in choices), strict=True))
    answers = _parsed(table, choose(table, "label", label, ("label", "answer", "answers")), parse_class)
    asked = choose(table, "question", None, ("question",))
    questions = [None] * len(table) if asked in (None, column) else strings(table, str(asked))
    rows = enumerate(zip(strings(table, column), offered, answers, questions, strict=True))
    return [choice_example(table.where(number), *row) for number, row in rows]


def choice_example(
    where: str, context: str, choices: Sequence[str], answer: str | None, question: str | None
) -> ChoiceExample:
    """Find the right choice by its text, its number, counted from 0, or its letter, counted from A."""
    require(len(choices) >= 2, f"{where} has {len(choices)} choices; there must be 2 or more.", BadInput)
    number = None
    if answer in choices:
        number = choices.index(answer)
    elif answer is not None:
        letter = ord(answer) - ord("A") if len(answer) == 1 and "A" <= answer <= "Z" else len(choices)
        number = int(answer) if answer.isdecimal() else letter
        told = f"{where} has the label {answer!r}, which is none of its choices"
        require(number < len(choices), f"{told}; count from 0, or write a letter or the choice itself.", BadInput)
    asked = "" if question is None else f"{question} "
    return ChoiceExample(context, tuple(f"{asked}{choice}" for choice in choices), number, where)


def strings(table: Table, column: str) -> list[str]:
    """The texts of a column."""
    values = table.column(column)
    for row, value in enumerate(values):
        told = f"{table.where(row)} has {value!r} for {column!r}, which is no text"
        require(isinstance(value, str), f"{told}; write one, or take the row out.", BadInput)
    return values  # type: ignore[return-value]


def _lists(table: Table, column: str) -> list[tuple[str, ...]]:
    found = []
    for row, value in enumerate(table.column(column)):
        if not (isinstance(value, list) and all(isinstance(item, str | int) for item in value)):
            raise BadInput(f"{table.where(row)} has {value!r} for {column!r}, which is no list of words; write one.")
        found.append(tuple(map(str, value)))
    return found


def _parsed(table: Table, column: str | None, parse: Callable[[object], Value]) -> list[Value | None]:
    """The labels of a column, or as many None where there is none."""
    values = [None] * len(table) if column is None else table.column(column)
    labels: list[Value | None] = []
    # the hub's test splits have no labels, and say so in every row
    if all(value is None for value in values):
        return [*labels, *[None] * len(values)]
    for row, value in enumerate(values):
        try:
            labels.append(parse(value))
        except BadInput as error:
            raise BadInput(f"{table.where(row)} {error} in column {column!r}; mend the row, or take it out.") from None
    return labels


def read_squad(path: str | Path) -> list[QuestionExample]:
    """Read all questions in the order of the file; answers are given as written, right or not (see `misplaced`)."""
    whole = read_json(path)
    articles = whole.get("data") if isinstance(whole, dict) else None
    require(isinstance(articles, list), f'{path} is not SQuAD: it has no list under "data"; check the file.', BadInput)
    found: dict[str, QuestionExample] = {}
    for a, article in enumerate(articles or (), start=1):
        for p, paragraph in enumerate(need_field(article, "paragraphs", list, f"{path}, article {a}"), start=1):
            where = f"{path}, article {a}, paragraph {p}"
            context = need_field(paragraph, "context", str, where)
            for q, asked in enumerate(need_field(paragraph, "qas", list, where), start=1):
                add_question(found, _question(f"{where}, question {q}", context, asked))
    require(bool(found), f"{path} has no questions; check the file.", BadInput)
    return list(found.values())


def add_question(found: dict[str, QuestionExample], example: QuestionExample) -> None:
    """Add a question under its id: two with the same would be scored as one."""
    fault, todo = f"has the id {example.id!r} of a question before it", "give each question its own, or take one out"
    require(example.id not in found, f"{example.where} {fault}; {todo}.", BadInput)
    found[example.id] = example


def read_questions(source: str | Path) -> list[QuestionExample]:
    """Read questions from the hub or from json, jsonl or parquet with columns id, question, context and answers.

    Answers are {"text": [...], "answer_start": [...]}; where both are empty, the question cannot be answered.
    """
    table = open_table(source)
    names = ("id", "question", "context", *(("answers",) if "answers" in table.columns else ()))
    found: dict[str, QuestionExample] = {}
    for row, values in enumerate(zip(*map(table.column, names), strict=True)):
        asked, where = dict(zip(names, values, strict=True)), table.where(row)
        if (given := asked.pop("answers", None)) is not None:
            texts, starts = (need_field(given, name, list, where) for name in ("text", "answer_start"))
            told = f"{where} has {len(texts)} answers and {len(starts)} starts"
            require(len(texts) == len(starts), f"{told}; give each answer one.", BadInput)
            answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
            asked |= {"answers": answers, "is_impossible": not texts}
        add_question(found, _question(where, need_field(asked, "context", str, where), asked))
    return list(found.values())


def misplaced(example: QuestionExample) -> list[tuple[str, int, str]]:
    """Answers that are not in the context where they say: (text, start, what stands there)."""
    context = example.context
    spans = [(text, start, context[max(start, 0) : max(start, 0) + len(text)]) for text, start in example.answers]
    return [(text, start, there) for text, start, there in spans if start < 0 or not text or there != text]


def _question(where: str, context: str, asked: Any) -> QuestionExample:
    name = str(asked.get("id", "")) if isinstance(asked, dict) else ""
    require(name != "", f'{where} has no "id"; give each question its own.', BadInput)
    impossible = bool(asked.get("is_impossible", False))
    given = [] if impossible else asked.get("answers", [])
    require(isinstance(given, list), f'{where} has no list under "answers"; write [] where there are none.', BadInput)
    answers = tuple(
        (need_field(item, "text", str, where), need_field(item, "answer_start", int, where)) for item in given
    )
    return QuestionExample(name, need_field(asked, "question", str, where), context, answers, impossible, where)


_KINDS = {str: "text", int: "whole number", list: "list", dict: "record"}


def need_field(record: Any, name: str, kind: type, where: str) -> Any:
    """A value of a record, which must be there and of this type."""
    value = record.get(name) if isinstance(record, dict) else None
    require(isinstance(value, kind), f"{where} has no {_KINDS[kind]} under {name!r}; add it.", BadInput)
    return value


_DOCUMENT = "-DOCSTART-"


def read_conll(path: str | Path, *, word: int = 1, tag: int | None = None) -> list[WordsExample]:
    """Read sentences: the word is in the first column, the tag in the last, unless other numbers are given.

    Tabs or spaces part the columns. Tags stay as they are; see `data.tags`.
    """
    sentences: list[WordsExample] = []
    rows: list[tuple[str, str]] = []
    width: int | None = None
    opens = False
    for number, line in enumerate([*read_lines(Path(path)), ""], start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == _DOCUMENT:
            if rows:
                words, tags = zip(*rows, strict=True)
                sentences.append(WordsExample(words, tags, opens, where=f"{path}, line {number - len(rows)}"))
                rows, opens = [], False
            opens = opens or fields[:1] == [_DOCUMENT]
            continue
        where = f"{path}, line {number}"
        if width is None:
            width, asked = len(fields), max(word, tag or 2)
            require(min(word, tag or 1) > 0, f"columns are counted from 1, not from {min(word, tag or 1)}", BadInput)
            require(width >= asked, f"{where} has {width} columns, not {asked}; a word and a tag are needed.", BadInput)
        require(len(fields) == width, f"{where} has {len(fields)} columns, not {width} as before; mend it.", BadInput)
        row = fields[word - 1], fields[-1 if tag is None else tag - 1]
        require(all(row), f"{where} has an empty word or tag; fill it.", BadInput)
        rows.append(row)
    require(bool(sentences), f"{path} has no sentences; check the file.", BadInput)
    return sentences


def join_documents(sentences: Sequence[WordsExample]) -> list[WordsExample]:
    """Make one example of all sentences of a document, so that each word is seen in its context (as BERT's NER did)."""
    opens = [place for place, sentence in enumerate(sentences) if sentence.opens]
    todo = f"{_DOCUMENT} lines of a CoNLL file say where one begins"
    require(bool(opens), f"none of these sentences opens a document; {todo}", BadInput)
    # what stands before the first is a document as well
    documents = [sentences[first:last] for first, last in pairwise(sorted({0, *opens, len(sentences)}))]
    return [
        WordsExample(
            words=tuple(word for sentence in document for word in sentence.words),
            tags=tuple(tag for sentence in document for tag in sentence.tags or ()),
            opens=True,
            sentences=tuple(len(sentence.words) for sentence in document),
            where=document[0].where,
        )
        for document in documents
    ]


def is_dream(source: str | Path) -> bool:
    """Tell DREAM's lists of lists from a list of records."""
    if not str(source).endswith(".json") or not Path(source).is_file():
        return False
    content = read_json(source)
    return isinstance(content, list) and bool(content) and isinstance(content[0], list)


def read_dream(path: str | Path) -> list[ChoiceExample]:
    """Read [[turns], [{question, choice, answer}], id] for each dialogue; the question goes with each choice."""
    found = []
    for number, record in enumerate(read_json(path), start=1):
        where = f"{path}, dialogue {number}"
        try:
            context = "\n".join(record[0])
            found += [
                choice_example(where, context, asked["choice"], asked["answer"], asked["question"])
                for asked in record[1]
            ]
        except (LookupError, TypeError):
            raise BadInput(f"{where} is not [[turns], [questions], id] as DREAM has it.") from None
    return found
