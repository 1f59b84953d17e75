"""Predictions go into files and come back, by the names and in the layouts that others read."""

import json

import pytest

from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.errors import BadInput
from clearhead.evaluation.predictions import check_name, read_predictions, write_predictions
from clearhead.evaluation.scores import asked, gold_of

CASES = {
    "classify": ([TextExample("a", label="no"), TextExample("b", "c", "yes")], ["no", "no"], (".jsonl", ".tsv")),
    "label": ([TextExample("a", label=("x", "y"))], [["x"]], (".jsonl",)),
    "regress": ([TextExample("a", label=0.5)], [0.25], (".jsonl", ".tsv")),
    "similar": ([PairExample("a", "b", 0.5)], [0.25], (".jsonl", ".tsv")),
    "search": ([TextExample("a", "b", 1)], [0.25], (".jsonl",)),
    "choose": ([ChoiceExample("a", ("b", "c"), 1)], [0], (".jsonl",)),
    "instruct": ([PairExample("a", "b")], ["so\nit is"], (".jsonl",)),
    "summaries": ([PairExample("a", "b")], ["so\nit is"], (".jsonl",)),
    "translation": ([PairExample("a", "b")], ["so it is"], (".jsonl", ".txt")),
    "tag": (
        [WordsExample(("a", "b", "c"), ("O", "B-X", "O"), sentences=(2, 1)), WordsExample(("d",), ("O",))],
        [["B-X", "I-X", "O"], ["O"]],
        (".jsonl", ".txt", ".conll"),
    ),
    "answer": ([QuestionExample("7", "who?", "c", (("c", 0),))], ["c"], (".jsonl", ".json")),
}


def rows_of(examples, predicted):
    pairs = zip(examples, predicted, strict=True)
    return [{**asked(example), "gold": gold_of(example), "predicted": one} for example, one in pairs]


@pytest.mark.parametrize(("task", "suffix"), [(task, suffix) for task in CASES for suffix in CASES[task][2]])
def test_what_is_written_is_read(tmp_path, task, suffix):
    examples, predicted, _ = CASES[task]
    path = tmp_path / f"out{suffix}"
    write_predictions(task, path, examples, rows_of(examples, predicted))
    assert [row["predicted"] for row in read_predictions(task, path, examples)] == predicted


def test_official_layouts(tmp_path):
    for task, name, content in [
        ("tag", "a.txt", "a O B-X\nb B-X I-X\n\nc O O\n\nd O O\n\n"),
        ("classify", "a.tsv", "index\tprediction\n0\tno\n1\tno\n"),
        ("answer", "a.json", '{\n "7": "c"\n}\n'),
        ("translation", "b.txt", "so it is\n"),
    ]:
        examples, predicted, _ = CASES[task]
        write_predictions(task, tmp_path / name, examples, rows_of(examples, predicted))
        assert (tmp_path / name).read_text(encoding="utf-8") == content


def test_lines(tmp_path):
    path = tmp_path / "said.txt"
    for task, text, predicted in [
        ("classify", "no\nyes\n", ["no", "yes"]),
        ("label", "x, y\n\n", [["x", "y"], []]),
        ("regress", "0.5\nhigh\n", [0.5, "high"]),
        ("choose", "1\n0\n", [1, 0]),
    ]:
        path.write_text(text, encoding="utf-8")
        assert [row["predicted"] for row in read_predictions(task, path, [])] == predicted
    path.with_suffix(".jsonl").write_text('{"summary": "so"}\n', encoding="utf-8")  # as it was called before
    assert read_predictions("summaries", path.with_suffix(".jsonl"), [])[0]["predicted"] == "so"


def test_files_of_other_data(tmp_path):
    path = tmp_path / "said.jsonl"
    examples = [TextExample("a", label="no", where="dev.csv, line 2")]
    for row, message in [
        ({"text": "b", "predicted": "no"}, "line 1 has another 'text' than dev.csv, line 2; give the predictions of"),
        ({"gold": "yes", "predicted": "no"}, "line 1 has another 'gold' than dev.csv, line 2"),
        ({"label": "no"}, 'line 1 has no "predicted"'),
        (["no"], 'line 1 has no "predicted"'),
    ]:
        path.write_text(json.dumps(row), encoding="utf-8")
        with pytest.raises(BadInput, match=message):
            read_predictions("classify", path, examples)
    (tmp_path / "tags.txt").write_text("a O O\n", encoding="utf-8")
    with pytest.raises(BadInput, match="there are 2 words and 1 predicted tags"):
        read_predictions("tag", tmp_path / "tags.txt", [WordsExample(("a", "b"), ("O", "O"))])
    with pytest.raises(
        BadInput, match=r"said.txt: predictions of choose are written as JSON lines; name a .jsonl file"
    ):
        check_name("choose", tmp_path / "said.txt")
    with pytest.raises(BadInput, match=r"name a .jsonl or .tsv file"):
        check_name("classify", tmp_path / "said.csv")
