"""Data of a task in its published layouts, and columns by name."""

import json

import pytest

from clearhead.data.examples import ChoiceExample, PairExample, TextExample, WordsExample
from clearhead.errors import BadInput
from clearhead.training.recipes.finetune import find_reader


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_dream_and_mutual_are_choices(tmp_path):
    dream = tmp_path / "dream.json"
    asked = {"question": "Who?", "choice": ["Ada", "Bob", "Eve"], "answer": "Bob"}
    dream.write_text(json.dumps([[["M: Hi.", "W: Hi."], [asked], "1"]]))
    assert find_reader("choose")(dream, {}) == [
        ChoiceExample("M: Hi.\nW: Hi.", ("Who? Ada", "Who? Bob", "Who? Eve"), 1)
    ]
    row = {"answers": "B", "options": ["m : yes", "m : no"], "article": "f : tea ?", "id": "dev_1"}
    assert find_reader("choose")(write(tmp_path / "mutual.jsonl", row), {}) == [
        ChoiceExample("f : tea ?", ("m : yes", "m : no"), 1)
    ]
    with pytest.raises(BadInput, match="the label 'E', which is none of its choices"):
        find_reader("choose")(write(tmp_path / "mutual.jsonl", row | {"answers": "E"}), {})


def test_wikiqa_has_queries_passages_and_grades(tmp_path):
    path = tmp_path / "wikiqa.txt"
    path.write_text("who ?\tAda .\t1\nwho ?\tnobody .\t0\n")
    assert find_reader("search")(path, {}) == [
        TextExample("who ?", "Ada .", 1.0),
        TextExample("who ?", "nobody .", 0.0),
    ]
    with pytest.raises(BadInput, match=r"line 1 has 0\.5 for a relevance; write 0, 1, 2, … in column 'label'"):
        find_reader("search")(write(tmp_path / "r.jsonl", {"question": "a", "sentence": "b", "label": 0.5}), {})
    with pytest.raises(BadInput, match="has no passages beside its queries"):
        find_reader("search")(write(tmp_path / "r.jsonl", {"text": "a", "label": 1}), {})


def test_columns_have_the_same_options_for_every_task(tmp_path):
    path = write(tmp_path / "rows.jsonl", {"a": "one", "b": "two", "c": 1, "w": ["one"], "t": ["O"], "o": ["x", "y"]})
    assert find_reader("similar")(path, {"text": "a", "pair": "b", "label": "c"}) == [PairExample("one", "two", 1.0)]
    assert find_reader("tag")(path, {"text": "w", "label": "t"}) == [WordsExample(("one",), ("O",))]
    chosen = find_reader("choose")(path, {"text": "a", "pair": "o", "label": "c"})
    assert chosen == [ChoiceExample("one", ("x", "y"), 1)]


@pytest.mark.parametrize(
    ("task", "columns", "message"),
    [
        ("answer", {"text": "a"}, "the data of answer has no column for --text"),
        ("tag", {"pair": "a"}, "the data of tag has no column for --pair"),
        ("tag", {"text": "a"}, "has no column 'a'; give a number from 1 on, or one of word, pos, chunk, ner"),
    ],
)
def test_columns_that_a_task_does_not_have_are_refused(task, columns, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        find_reader(task)(tmp_path / "eng.train", columns)


def test_unknown_tasks_are_refused():
    with pytest.raises(BadInput, match=r"no task 'translate'; choose one of classify, .*, similar, instruct, search"):
        find_reader("translate")
