"""SQuAD's JSON, 1.1 and 2.0: questions about paragraphs, with answers by text and character."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.columns import open_table
from clearhead.data.examples import QuestionExample
from clearhead.data.json_files import read_json
from clearhead.errors import BadInput, require


def read_squad(path: str | Path) -> list[QuestionExample]:
    """Read all questions in the order of the file; answers are given as written, right or not (see `misplaced`)."""
    found = [_question(*place) for place in _questions(Path(path))]
    require(bool(found), f"{path} has no questions.", BadInput)
    first: dict[str, QuestionExample] = {}
    for example in found:
        # a question that is there twice does no harm; two questions with one id would be scored as one
        same = first.setdefault(example.id, example) == example
        require(same, f"{path} has two different questions with the id {example.id!r}.", BadInput)
    return found


def read_questions(source: str | Path) -> list[QuestionExample]:
    """Read questions from the hub or from json, jsonl or parquet with columns id, question, context and answers.

    Answers are {"text": [...], "answer_start": [...]}; where both are empty, the question cannot be answered.
    """
    table = open_table(source)
    names = ("id", "question", "context", *(("answers",) if "answers" in table.columns else ()))
    found = []
    for row, values in enumerate(zip(*map(table.column, names), strict=True)):
        asked, where = dict(zip(names, values, strict=True)), table.where(row)
        given = asked.get("answers")
        if given is not None:
            texts, starts = _field(given, "text", list, where), _field(given, "answer_start", list, where)
            require(len(texts) == len(starts), f"{where} has {len(texts)} answers and {len(starts)} starts.", BadInput)
            asked["answers"] = [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
            asked["is_impossible"] = not texts
        else:
            asked["answers"] = []
        found.append(_question(where, _field(asked, "context", str, where), asked))
    return found


def misplaced(example: QuestionExample) -> list[tuple[str, int, str]]:
    """Answers that are not in the context where they say: (text, start, what stands there)."""
    context = example.context
    spans = [(text, start, context[max(start, 0) : max(start, 0) + len(text)]) for text, start in example.answers]
    return [(text, start, there) for text, start, there in spans if start < 0 or not text or there != text]


def _questions(path: Path) -> Iterator[tuple[str, Any, Any]]:
    whole = read_json(path)
    articles = whole.get("data") if isinstance(whole, dict) else None
    require(isinstance(articles, list), f'{path} is not SQuAD: it has no list under "data".', BadInput)
    for a, article in enumerate(articles or (), start=1):
        for p, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}, article {a}"), start=1):
            where = f"{path}, article {a}, paragraph {p}"
            context = _field(paragraph, "context", str, where)
            for q, asked in enumerate(_field(paragraph, "qas", list, where), start=1):
                yield f"{where}, question {q}", context, asked


def _question(where: str, context: str, asked: Any) -> QuestionExample:
    name = str(asked.get("id", "")) if isinstance(asked, dict) else ""
    require(name != "", f'{where} has no "id".', BadInput)
    impossible = bool(asked.get("is_impossible", False))
    given = [] if impossible else asked.get("answers", [])
    require(isinstance(given, list), f'{where} has no list under "answers".', BadInput)
    answers = tuple((_field(item, "text", str, where), _field(item, "answer_start", int, where)) for item in given)
    return QuestionExample(name, _field(asked, "question", str, where), context, answers, impossible)


def _field(record: Any, name: str, kind: type, where: str) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    require(isinstance(value, kind), f"{where} has no {kind.__name__} under {name!r}.", BadInput)
    return value
