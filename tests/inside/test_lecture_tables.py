"""The tables of the lectures with our rows, and the scores of features as the docs have measured them."""

from pathlib import Path

from clearhead.evaluation.results import tables
from clearhead.inside import lecture_tables
from clearhead.inside.layers import CONLL


def test_the_lectures_rows_come_first_and_ours_below():
    found = {table["name"]: table for table in lecture_tables().data["tables"]}
    assert [table.name for table in tables()] == list(found)[: len(tables())]
    glue = found["GLUE"]
    base = next(line for line in glue["lines"] if line["model"] == "BERT-base")
    assert (base["source"], base["values"][-1]) == ("lectures", 79.6)
    splits = [line["split"] for line in glue["lines"]]
    assert splits == sorted(splits), "dev and test stand apart"
    assert {line["source"] for line in glue["lines"]} == {"lectures", "measured"}
    for table in found.values():
        for split in {line["split"] for line in table["lines"]}:
            sources = [line["source"] == "measured" for line in table["lines"] if line["split"] == split]
            assert sources == sorted(sources), f"{table['name']}, {split}"


def test_own_rows_take_the_place_of_the_built_in_ones():
    row = {"task": "SST-2", "metric": "accuracy", "value": 91.25, "model": "mine", "split": "dev"}
    glue = lecture_tables([row]).data["tables"][0]
    (mine,) = [line for line in glue["lines"] if line["source"] != "lectures"]
    assert (mine["model"], mine["values"][glue["columns"].index("SST-2 accuracy")]) == ("mine", 91.2)


def test_the_scores_of_features_are_those_of_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    names = {
        "embeddings": "embeddings",
        "last": "last layer",
        "second-to-last": "second-to-last layer",
        "sum of last four": "sum of the last four",
        "sum of all": "sum of all layers",
        "last four side by side": "concatenation of the last four",
    }
    for name, (lectures, linear, recurrent) in CONLL.items():
        line = next(row for row in text.splitlines() if row.startswith(f"| {names[name]} | {lectures}"))
        cells = [cell.split("±")[0].strip() for cell in line.split("|")[2:5]]
        assert cells == [f"{value:.1f}" for value in (lectures, linear, recurrent)]
