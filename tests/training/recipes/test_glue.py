"""All of GLUE in one run: what is there is trained and measured, in the official files and names."""

import json

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.errors import BadInput, NotFound
from clearhead.evaluation.results import TABLES, Measured
from clearhead.training.recipes.glue import GLUE_TASKS, average, find_diagnostic, find_tasks
from pipelines.peers import peers

PAIRS = [
    ("the street", "the river", "entailment"),
    ("a mask", "the river", "neutral"),
    ("a mask", "no", "contradiction"),
]


def tsv(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "GLUE"
    nli = ("index", "sentence1", "sentence2")
    labelled = [(*nli, "gold_label"), *((str(n), *PAIRS[n % 3]) for n in range(6))]
    for name in ("train", "dev_matched", "dev_mismatched"):
        tsv(folder / "MNLI" / f"{name}.tsv", *labelled)
    for path in ("MNLI/test_matched.tsv", "MNLI/test_mismatched.tsv", "AX/diagnostic.tsv"):
        tsv(folder / path, nli, *((str(n), *PAIRS[n][:2]) for n in range(3)))
    scores = [
        ("index", "sentence1", "sentence2", "score"),
        *((str(n), "the street", "the river " * n, str(n)) for n in range(5)),
    ]
    tsv(folder / "STS-B" / "train.tsv", *scores)
    tsv(folder / "STS-B" / "dev.tsv", *scores)
    tsv(folder / "RTE" / "dev.tsv", ("index", "sentence1", "sentence2", "label"), ("0", "a", "b", "entailment"))
    return folder


def test_all_that_is_there_is_trained_measured_and_submitted(data, tmp_path):
    command = ["glue", "--data", data, "--model", peers("BertForMaskedLM").folder, "--out", tmp_path / "out"]
    command += ["--set", "train.steps=1", "--set", "items=4", "--seeds", 2, "--device", "cpu", "--json"]
    found = json.loads(CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False).stdout)
    rows = {(row["task"], row["metric"], row["seed"]): row["value"] for row in found["figures"]}
    tasks = [("STS-B", "spearman"), ("STS-B", "pearson"), ("MNLI-m", "accuracy"), ("MNLI-mm", "accuracy")]
    assert set(rows) == {(*task, seed) for task in tasks for seed in (0, 1)}
    assert rows["MNLI-m", "accuracy", 0] == rows["MNLI-mm", "accuracy", 0]  # the same file here
    assert found["submissions"] == ["AX.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
    lines = (tmp_path / "out" / "submission" / "AX.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1", "2"]
    shown = (
        CliRunner().invoke(app, [*map(str, command[:-1])], catch_exceptions=False).stdout
    )  # and goes on: all is over
    assert json.loads((tmp_path / "out" / "figures.json").read_text()) == found["figures"]
    assert "BERT-base" in shown
    assert "mean of 3 of the 9 columns" in shown
    assert f"left out: RTE, there is no {data / 'RTE' / 'train.tsv'}" in shown


@pytest.mark.parametrize("place", ["AX/AX.tsv", "AX/diagnostic.tsv", "diagnostic/diagnostic.tsv", "AX.tsv"])
def test_the_diagnostic_set_is_found_where_people_have_it(place, tmp_path):
    assert find_diagnostic(tmp_path) is None
    tsv(tmp_path / place, ("index", "sentence1", "sentence2"), ("0", "a", "b"))
    assert find_diagnostic(tmp_path) == tmp_path / place


def test_the_average_is_of_all_nine_columns_or_it_is_said_of_which():
    columns = TABLES[0].columns[:-1]
    rows = [
        Measured(task=column.rsplit(" ", 1)[0], metric=column.rsplit(" ", 1)[1], value=float(n), model="m")
        for n, column in enumerate(columns)
    ]
    mean, told = average(rows)
    assert mean is not None
    assert (mean.value, told) == (4.0, "mean of 9 of the 9 columns: 4.0")
    assert average(rows[:3])[0] is None
    assert average([])[1].startswith("none of the nine columns")


def test_what_is_missing_is_said(data):
    found, missing = find_tasks(data)
    assert set(found) == {"STS-B", "MNLI"}
    assert set(found) | set(missing) == set(GLUE_TASKS)
    with pytest.raises(NotFound, match=r"missing .RTE: there is no .*train\.tsv"):
        find_tasks(data, ["RTE"])
    with pytest.raises(BadInput, match="GLUE has no task 'SQuAD'; choose of CoLA, SST-2"):
        find_tasks(data, ["SQuAD"])
    with pytest.raises(NotFound, match=r"RTE has none of GLUE's tasks .* give the folder that holds one for each task"):
        find_tasks(data / "RTE")
    with pytest.raises(NotFound, match="is no folder; give the one that holds CoLA"):
        find_tasks(data / "nothing")
