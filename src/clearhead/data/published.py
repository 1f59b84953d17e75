"""Layouts that published data sets have of their own: SWAG, RACE, TyDiQA, HotpotQA, CoNLL-U; which one a file has."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clearhead.data.examples import ChoiceExample, QuestionExample, WordsExample
from clearhead.data.formats import (
    add_question,
    choice_example,
    is_dream,
    need_field,
    read_choices,
    read_conll,
    read_dream,
    read_questions,
    read_squad,
    strings,
)
from clearhead.data.tables import Table, choose, need, open_table
from clearhead.errors import BadInput, NotFound, require
from clearhead.io import content_suffix, parse_json, read_json, read_lines
from clearhead.text.chat import Message, check_messages

log = logging.getLogger(__name__)

# the columns of CoNLL-U that can be tags, and those of CoNLL-2003, by the names that their papers give them
_CONLLU = {"form": 2, "lemma": 3, "upos": 4, "xpos": 5, "feats": 6, "deprel": 8}
_CONLL2003 = {"word": 1, "pos": 2, "chunk": 3, "ner": 4}


# ---- choices ------------------------------------------------------------------------------------------------------


def open_choices(source: str | Path, **columns: Any) -> list[ChoiceExample]:
    """Read contexts with their choices: DREAM, RACE (a file or a folder of them), SWAG in both forms, or any table."""
    path = Path(source)
    if is_dream(source):
        return read_dream(source)
    if path.is_dir() or (path.suffix == ".txt" and path.is_file()):
        return read_race(path)
    if path.suffix == ".csv" and not columns:
        table = open_table(source)
        if "gold-ending" in table.columns:
            return list(_swag(table))
    return read_choices(source, **columns)


def _swag(table: Table) -> Iterator[ChoiceExample]:
    """SWAG's full form: the right ending and three or four others, each in a column of its own.

    The right one changes its place from row to row, so that nothing is won by always taking the first.
    """
    others = [name for name in table.columns if name.startswith("distractor-") and not name.endswith("-type")]
    require(bool(others), f"{table.name} has a column 'gold-ending' and none named 'distractor-0'; add them.", BadInput)
    context = strings(table, need(table, "context", None, ("startphrase", "sent1")))
    wrongs = zip(*(strings(table, one) for one in others), strict=True)
    for row, (start, gold, wrong) in enumerate(zip(context, strings(table, "gold-ending"), wrongs, strict=True)):
        endings = [one for one in wrong if one]
        require(bool(endings), f"{table.where(row)} has no distractor; a choice needs one or more.", BadInput)
        place = row % (len(endings) + 1)
        endings.insert(place, gold)
        yield ChoiceExample(start, tuple(endings), place, table.where(row))


def read_race(path: Path) -> list[ChoiceExample]:
    """Read RACE's file of a passage, or all of a folder: an article, its questions, four options and a letter each."""
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    require(bool(files), f"{path} has no .txt files, of which RACE has one for each passage.", NotFound)
    found: list[ChoiceExample] = []
    for file in files:
        record = read_json(file)
        article = need_field(record, "article", str, str(file))
        asked, options = (need_field(record, name, list, str(file)) for name in ("questions", "options"))
        answers = record.get("answers") or [None] * len(asked)  # a test set may have none
        counts = {len(asked), len(options), len(answers)}
        told = f"{len(asked)} questions, {len(options)} lists of options and {len(answers)} answers"
        require(len(counts) == 1, f"{file} has {told}; there must be as many of each.", BadInput)
        for number, (question, offered, answer) in enumerate(zip(asked, options, answers, strict=True), start=1):
            where = f"{file}, question {number}"
            texts = isinstance(offered, list) and all(isinstance(one, str) for one in [question, *offered])
            require(texts, f"{where} is no text with a list of options; mend it.", BadInput)
            found.append(choice_example(where, article, offered, answer, question))
    return found


# ---- questions ----------------------------------------------------------------------------------------------------


def open_questions(source: str | Path) -> list[QuestionExample]:
    """Read questions about contexts: SQuAD, TyDiQA's primary task, HotpotQA, or flat records (see `read_questions`)."""
    reader = _layout(source)
    return reader(Path(source)) if reader is not None else read_questions(source)


def _layout(source: str | Path) -> Callable[[Path], list[QuestionExample]] | None:
    """What reads a file of a layout of its own; None for a table."""
    path = Path(source)
    if str(source).startswith("hub:") or content_suffix(path) not in (".json", ".jsonl"):
        return None
    if content_suffix(path) == ".jsonl":
        return read_tydi if '"document_plaintext"' in read_lines(path)[0] else None
    whole = read_json(path)
    records = whole.get("data") if isinstance(whole, dict) else whole
    first = records[0] if isinstance(records, list) and records else None
    context = first.get("context") if isinstance(first, dict) else None
    return read_hotpot if isinstance(context, list) else None if isinstance(context, str) else read_squad


def read_asked(source: str | Path, *, contexts: bool = True) -> list[QuestionExample]:
    """Read questions to be answered: SQuAD's own layout, or a table with a question and a context a row.

    Without an id, that of a question is its place. With `contexts` off, questions alone are read.
    """
    if (reader := _layout(source)) is not None:
        return reader(Path(source))
    table = open_table(source)
    questions = strings(table, need(table, "question", None, ("question", "query")))
    passages = [""] * len(table)
    if contexts:
        passages = strings(table, need(table, "context", None, ("context", "passage", "text", "article")))
    named = choose(table, "id", None, ("id", "qid", "question_id"))
    ids = [None] * len(table) if named is None else table.column(named)
    rows = zip(ids, questions, passages, table.places(), strict=True)
    return [
        QuestionExample(place if name is None else str(name), question, context, where=place)
        for name, question, context, place in rows
    ]


def read_conversations(path: Path) -> list[list[Message]]:
    """Read messages: one conversation, a message a line, or a line for each, which is a list or has "messages"."""
    found: list[list[Message]] = []
    alone: list[Message] = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            record = parse_json(line, where)
            several = record.get("messages") if isinstance(record, dict) else record
            check_messages(several if isinstance(several, list) else [record], where)
            if isinstance(several, list):
                found.append(several)
            else:
                alone.append(record)
    told = f"{path} has both messages and lists of them; write the one or the other, one conversation or several"
    require(not (found and alone), told, BadInput)
    require(bool(found or alone), f"{path} has no messages; write a role and a content a line", BadInput)
    return found or [alone]


def read_tydi(path: Path) -> list[QuestionExample]:
    """Read TyDiQA's primary task: questions about whole articles, whose minimal answers are counted in bytes.

    A question that nobody could answer is impossible. One that is answered by yes or no has no span and is left out.
    """
    found: dict[str, QuestionExample] = {}
    left_out = 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        record = parse_json(line, where)
        article, question = (need_field(record, name, str, where) for name in ("document_plaintext", "question_text"))
        stored = article.encode()
        said = need_field(record, "annotations", list, where) if "annotations" in record else None
        answers = []
        for one in said or ():
            span = need_field(one, "minimal_answer", dict, where)
            start, end = (need_field(span, f"plaintext_{side}_byte", int, where) for side in ("start", "end"))
            if start >= 0:
                require(start < end <= len(stored), f"{where} has an answer outside of its article; mend it.", BadInput)
                before, text = (stored[slice(*part)].decode(errors="ignore") for part in ((0, start), (start, end)))
                answers.append((text, len(before)))
        if said and not answers and any(one.get("yes_no_answer") in ("YES", "NO") for one in said):
            left_out += 1
            continue
        name = str(record.get("example_id", where))
        impossible = bool(said) and not answers
        add_question(found, QuestionExample(name, question, article, tuple(answers), impossible, where))
    _tell(path, left_out, "questions are answered by yes or no and have no span")
    require(bool(found), f"{path} has no question with a span for an answer; check the file.", BadInput)
    return list(found.values())


def read_hotpot(path: Path) -> list[QuestionExample]:
    """Read HotpotQA: questions about ten paragraphs, which are joined to one long context.

    The answer is looked for in the sentences that are said to support it, then everywhere. What is answered by yes or
    no, or in other words than those of the paragraphs, has no span and is left out.
    """
    found: dict[str, QuestionExample] = {}
    left_out = 0
    whole = read_json(path)
    for number, record in enumerate(whole["data"] if isinstance(whole, dict) else whole, start=1):
        where = f"{path}, record {number}"
        question = need_field(record, "question", str, where)
        paragraphs = need_field(record, "context", list, where)
        supports = {(title, place) for title, place in record.get("supporting_facts", ())}
        context, places = "", []
        for paragraph in paragraphs:
            fits = isinstance(paragraph, list) and len(paragraph) == 2 and isinstance(paragraph[1], list)
            require(fits, f"{where} has a paragraph that is not [title, [sentences]] as HotpotQA has it.", BadInput)
            context += f"{paragraph[0]}\n"
            for place, sentence in enumerate(paragraph[1]):
                places.append(((paragraph[0], place) not in supports, len(context), sentence))
                context += sentence
            context += "\n"
        answer = record.get("answer")
        starts = [
            start + sentence.find(answer) for _, start, sentence in sorted(places) if answer and answer in sentence
        ]
        if answer is not None and not starts:
            left_out += 1
            continue
        name = str(record.get("_id", record.get("id", where)))
        answers = () if answer is None else ((answer, starts[0]),)
        add_question(found, QuestionExample(name, question, context, answers, False, where))
    _tell(path, left_out, "questions have an answer that is no part of their paragraphs")
    require(bool(found), f"{path} has no question whose answer stands in its paragraphs; check the file.", BadInput)
    return list(found.values())


def _tell(path: Path, left_out: int, why: str) -> None:
    if left_out:
        log.warning("%s: %d %s; they are left out", path, left_out, why)


# ---- words --------------------------------------------------------------------------------------------------------


def open_columns(path: Path, word: str | None = None, tag: str | None = None) -> list[WordsExample]:
    """Read a CoNLL file: columns by number, from 1 on, or by the names that CoNLL-U or CoNLL-2003 give them."""
    if content_suffix(path) == ".conllu":
        return _conllu(path, _column(word or "form", _CONLLU, path), _column(tag or "upos", _CONLLU, path))
    chosen = None if tag is None else _column(tag, _CONLL2003, path)
    return read_conll(path, word=_column(word or "1", _CONLL2003, path), tag=chosen)


def _column(name: str, names: Mapping[str, int], path: Path) -> int:
    if name.isdecimal():
        return int(name)
    todo = f"give a number from 1 on, or one of {', '.join(names)}"
    require(name.lower() in names, f"{path} has no column {name!r}; {todo}.", BadInput)
    return names[name.lower()]


def _conllu(path: Path, word: int, tag: int) -> list[WordsExample]:
    """Universal Dependencies' layout: comments, what several words were written as, and empty words are no words."""
    sentences: list[WordsExample] = []
    words, tags, opens, begins = list[str](), list[str](), False, 0
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if line.startswith("#"):
            opens = opens or line.startswith("# newdoc")
        elif line.strip():
            fields = line.split("\t")
            require(
                len(fields) == 10,
                f"{path}, line {number} has {len(fields)} columns, not CoNLL-U's 10; mend it.",
                BadInput,
            )
            if fields[0].isdecimal():
                begins = begins or number
                words.append(fields[word - 1])
                tags.append(fields[tag - 1])
        elif words:
            sentences.append(WordsExample(tuple(words), tuple(tags), opens, where=f"{path}, line {begins}"))
            words, tags, opens, begins = [], [], False, 0
    require(bool(sentences), f"{path} has no sentences; check the file.", BadInput)
    return sentences
