"""Which column of a table is which: names that are given win; otherwise common names are tried, and that is said."""

import logging
from collections.abc import Sequence
from pathlib import Path

from clearhead.data.hubsets import read_hub
from clearhead.data.tables import Table, read_table
from clearhead.errors import BadInput, require

log = logging.getLogger(__name__)

TEXTS = ("sentence", "text", "review", "message", "content", "document")
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
    ("sentence_A", "sentence_B"),
    ("text1", "text2"),
    ("anchor", "positive"),
    ("first", "second"),
    ("text", "pair"),
    ("query", "passage"),
)
CLASSES = ("gold_label", "label", "labels", "class", "category", "Quality", "is_duplicate", "entailment_judgment")
SCORES = ("score", "similarity", "similarity_score", "relatedness_score", "relevance", "label")


def open_table(source: str | Path) -> Table:
    """Read a file, or a data set of the hub; CoLA's, WikiQA's and the SMS collection's are known without a header."""
    if isinstance(source, str) and source.startswith("hub:"):
        return read_hub(source)
    header = _published_header(Path(source))
    if header is not None:
        log.info("%s: no header line; the columns are taken to be %s.", source, ", ".join(header))
    return read_table(source, header)


def choose(table: Table, role: str, given: str | None, usual: Sequence[str]) -> str | None:
    """Find the column for a role: the given one, or the first usual name that is there; None if none is."""
    if given is not None:
        require(given in table.columns, _missing(table, given, role), BadInput)
        return given
    found = next((column for name in usual for column in table.columns if column.lower() == name.lower()), None)
    if found is not None:
        log.info("%s: the %s is taken from column %r.", table.name, role, found)
    return found


def choose_texts(
    table: Table, text: str | None, pair: str | None, *, need_pair: bool = False
) -> tuple[str, str | None]:
    """Find the columns of one text or two; a text that is given without a pair stands alone."""
    require(
        pair is None or text is not None, f"Give the column of the first text too, not only pair={pair!r}.", BadInput
    )
    if text is not None and (pair is not None or not need_pair):
        second = None if pair is None else choose(table, "second text", pair, ())
        return choose(table, "text", text, ()) or text, second
    lower = [column.lower() for column in table.columns]
    for first, second in PAIRS:
        if first.lower() in lower and second.lower() in lower:
            names = table.columns[lower.index(first.lower())], table.columns[lower.index(second.lower())]
            log.info("%s: the texts are taken from columns %r and %r.", table.name, *names)
            return names
    found = None if need_pair else choose(table, "text", None, TEXTS)
    require(found is not None, _missing(table, None, "two texts" if need_pair else "text"), BadInput)
    return str(found), None


def _missing(table: Table, name: str | None, role: str) -> str:
    there = ", ".join(repr(column[:40]) for column in table.columns)
    what = f"no column {name!r}" if name is not None else "no column with a usual name"
    todo = "Name the column, or give a header if the file has none"
    return f"{table.name} has {what} for the {role}; its columns are {there}. {todo}."


def _published_header(path: Path) -> tuple[str, ...] | None:
    if path.suffix in (".csv", ".json", ".jsonl", ".parquet") or not path.is_file():
        return None
    with path.open("rb") as file:
        fields = file.readline().decode("utf-8-sig", errors="replace").split("\t")
    if len(fields) == 2 and fields[0] in ("ham", "spam"):
        return "label", "text"
    if len(fields) == 3 and fields[2].strip() in ("0", "1"):
        return "question", "sentence", "label"
    if len(fields) == 4 and fields[1] in ("0", "1") and fields[2] in ("", "*"):
        return "source", "label", "mark", "sentence"
    return None
