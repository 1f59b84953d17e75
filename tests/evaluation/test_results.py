import json
import statistics

import pytest

from clearhead.errors import BadInput, NotFound
from clearhead.evaluation.results import TABLES, as_json, as_markdown, as_text, measured, read_measured, tables

GLUE = TABLES[0]


def row(task="SST-2", metric="accuracy", value=90.0, model="small", **more):
    return {"task": task, "metric": metric, "value": value, "model": model, **more}


def by_name(shown, name):
    return next(table for table in shown if table.name.startswith(name))


def test_the_lectures_tables_alone():
    shown = tables()
    names = ["GLUE", "SQuAD 1.1", "SQuAD 1.1, leaderboard of October 2018", "SQuAD 2.0", "CoNLL-2003"]
    assert [table.name for table in shown] == [*names, "CoNLL-2003 by features of a frozen BERT-base", "SWAG", "WMT14"]
    sources = {line.source for table in shown for line in table.lines if table.name != "WMT14"}
    assert sources == {"lectures"}
    assert {line.source for line in by_name(shown, "WMT14").lines} == {"paper, not the slides"}
    assert all(len(line.cells) == len(table.columns) for table in TABLES for line in table.lines)
    text = " ".join(as_text(shown).split())
    assert " BERT-large lectures dev 84.1 90.9 " in text
    assert " BERT-large + TriviaQA (ensemble) lectures test 87.4 93.2 Human lectures human 82.3 91.2 " in text


def test_every_row_of_the_slides_is_there():
    rows = {table.name.partition(",")[0]: 0 for table in TABLES}
    for table in TABLES:
        rows[table.name.partition(",")[0]] += len(table.lines)
    # 1.1: eight systems on dev, eight on test and people (deck 004), then the leaderboard of deck 000
    assert rows == {
        "GLUE": 5,
        "SQuAD 1.1": 17 + 4,
        "SQuAD 2.0": 12,
        "CoNLL-2003": 7,
        "CoNLL-2003 by features of a frozen BERT-base": 6,
        "SWAG": 9,
        "WMT14": 2,
    }


def test_splits_stand_apart():
    ours = [row("SWAG", value=70.0, split=split) for split in ("test", "dev")] + [row("SWAG", value=60.0)]
    lines = by_name(tables(measured(ours)), "SWAG").lines
    assert [line.split for line in lines] == ["dev"] * 5 + ["test"] * 4 + ["human"] * 2 + [""]
    assert [lines[place].source for place in (4, 8, 11)] == ["measured"] * 3


@pytest.mark.parametrize("line", GLUE.lines, ids=lambda line: line.model)
def test_the_lectures_average_is_the_mean_of_nine(line):
    *nine, average = (cell.value for cell in line.cells)
    assert statistics.fmean(nine) == pytest.approx(average, abs=0.051)  # printed with one decimal


def test_measured_figures_stand_below_with_mean_and_deviation():
    rows = [row("sst2", value=value, seed=seed, split="dev") for seed, value in enumerate([88.0, 89.0, 90.0])]
    line = by_name(tables(measured(rows)), "GLUE").lines[0]  # the lectures' are of the test sets
    assert (line.model, line.source, line.split) == ("small", "measured", "dev")
    (cell,) = [cell for cell in line.cells if cell]
    assert (cell.value, cell.deviation, cell.runs) == (pytest.approx(89), pytest.approx(1), 3)
    assert str(cell) == "89.0 ± 1.0"


def test_splits_and_models_have_lines_of_their_own():
    rows = [row("conll", "f1", 90.0, split="dev"), row("CoNLL-2003", "f1", 86.9, split="test")]
    lines = [line for line in by_name(tables(measured(rows)), "CoNLL").lines if line.source == "measured"]
    assert [(line.split, str(line.cells[0])) for line in lines] == [("dev", "90.0"), ("test", "86.9")]


def test_our_average_only_when_all_nine_are_there():
    rows = [row(*column.split(), 80.0) for column in GLUE.columns[:-1]]
    assert by_name(tables(measured(rows)), "GLUE").lines[-1].cells[-1].value == pytest.approx(80)
    assert by_name(tables(measured(rows[:-1])), "GLUE").lines[-1].cells[-1] is None


def test_other_figures_are_not_dropped():
    shown = tables(measured([row("AG News", value=91.23), row("mrpc", "accuracy", 80.0), row("wikiqa", "mrr", 0.6789)]))
    other = by_name(shown, "Not in the lectures")
    assert other.columns == ("AG News accuracy", "mrpc accuracy", "wikiqa mrr")
    assert [str(cell) for cell in other.lines[0].cells] == ["91.2", "80.0", "0.679"]


def test_three_ways_to_write():
    shown = tables(measured([row(model="a|b", value=50.0)]))
    assert "| a\\|b | measured |  | – | – | – | – | 50.0 | – | – | – | – | – |\n" in as_markdown(shown)
    assert as_markdown(shown).startswith("## GLUE\n\n| model | source | split | MNLI-m accuracy |")
    first = json.loads(as_json(shown))[0]
    assert first["lines"][-1]["model"] == "a|b"
    assert first["lines"][-1]["cells"][4] == {"value": 50.0, "deviation": None, "runs": 1}
    widths = {len(line) for line in as_text(shown).split("\n\n")[0].splitlines()[1:]}
    assert len(widths) == 1


def test_from_a_file(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps([row(seed=1, extra="kept out")]))
    assert read_measured(tmp_path / "m.json")[0].value == 90
    (tmp_path / "m.json").write_text("{}")
    with pytest.raises(BadInput, match="no list of rows but a dict"):
        read_measured(tmp_path / "m.json")
    with pytest.raises(NotFound, match="There is no file"):
        read_measured(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(seed=1), row(seed=1)], "Rows 0 and 1 both give accuracy of small on SST-2 for seed 1"),
        ([{"task": "x"}], "Row 0 has None as its metric"),
        ([row(value="0.9")], "Row 0 has '0.9' as its value"),
        ([row(value=float("nan"))], "Row 0 has nan as its value"),
        ([row(split=1)], "Row 0 has 1 as its split"),
        ([row(seed="a")], "Row 0 has 'a' as its seed"),
        (["x"], "Row 0 is 'x'"),
    ],
)
def test_bad_rows(rows, message):
    with pytest.raises(BadInput, match=message):
        measured(rows)
