"""How the data of a task is read where more than one layout is known, or columns have names of their own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.data.conll import read_conll
from clearhead.data.dream import is_dream, read_dream
from clearhead.data.readers import a_grade, read_choices, read_pairs, read_texts, read_words
from clearhead.data.squad import read_questions, read_squad
from clearhead.errors import BadInput, require

Columns = Mapping[str, Any]  # of "text", "pair" and "label": the name of the column


def similar_pairs(source: Path | str, columns: Columns) -> list[Any]:
    """Scores of similarity come as 0 to 5 or 0 to 1; a cosine goes from 0 to 1 here."""
    examples = read_pairs(source, **_renamed(columns, "similar", text="first", pair="second", label="score"))
    largest = max((example.score or 0.0 for example in examples), default=0.0)
    scale = 5.0 if largest > 1 else 1.0
    return [type(e)(e.first, e.second, None if e.score is None else e.score / scale) for e in examples]


def tagged_words(source: Path | str, columns: Columns) -> list[Any]:
    """CoNLL's columns, or records with lists of words and tags."""
    named = _renamed(columns, "tag", text="words", label="tags")
    if str(source).endswith((".json", ".jsonl", ".parquet")) or str(source).startswith("hub:"):
        return list(read_words(source, **named))
    require(
        not named, f"{source} is read as CoNLL, whose columns have no names; leave --text and --label out", BadInput
    )
    return list(read_conll(source, iob2=True))


def asked_questions(source: Path | str, columns: Columns) -> list[Any]:
    """SQuAD's own layout, or flat records with the same names."""
    _renamed(columns, "answer")
    return list(read_squad(source) if str(source).endswith(".json") else read_questions(source))


def offered_choices(source: Path | str, columns: Columns) -> list[Any]:
    """DREAM's own layout, or records with a context and choices."""
    named = _renamed(columns, "choose", text="context", pair="choices", label="label")
    return list(read_dream(source) if is_dream(source) else read_choices(source, **named))


def judged_passages(source: Path | str, columns: Columns) -> list[Any]:
    """Queries with a passage each, and how relevant it is: 0 is not at all."""
    rows = read_texts(source, parse=a_grade, **columns)
    require(
        all(row.pair is not None for row in rows),
        f"{source} has no passages beside its queries; name their column with --pair",
        BadInput,
    )
    return list(rows)


def _renamed(columns: Columns, kind: str, **names: str) -> dict[str, Any]:
    """Give the columns under the names of a reader's arguments; refuse one that this kind of task does not have."""
    for role in columns:
        require(role in names, f"the data of {kind} has no column for --{role}; leave it out", BadInput)
    return {names[role]: column for role, column in columns.items()}
