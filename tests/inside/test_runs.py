"""Training runs as columns of numbers, from what lies in their folders."""

import json

import pytest

from clearhead.errors import BadInput, NotFound
from clearhead.inside.runs import LIMIT, POINTS, training_runs
from clearhead.training.monitor import METRICS
from inside.pages import Page
from studio.runs import row, write_run


def test_numbers_are_those_of_the_folder(tmp_path):
    view = training_runs([write_run(tmp_path / "a")])
    columns = view.data["runs"][0]["columns"]
    rows = [row(step) for step in range(10, 201, 10)]
    assert columns["step"] == [one["step"] for one in rows]
    assert columns["loss"] == pytest.approx([one["loss"] for one in rows], rel=1e-7)
    assert columns["evaluation/accuracy"] == [one.get("evaluation/accuracy") for one in rows]
    assert Page(view.html).facts == json.loads(json.dumps(view.data))


def test_either_folder_of_a_run_will_do_and_names_tell_runs_apart(tmp_path):
    one, two = write_run(tmp_path / "x" / "model"), write_run(tmp_path / "y" / "model")
    assert [run["name"] for run in training_runs([one, two / "run"]).data["runs"]] == ["x/model", "y/model"]
    assert [run["name"] for run in training_runs([one]).data["runs"]] == ["model"]


def test_long_runs_are_thinned_and_keep_their_means(tmp_path):
    folder = write_run(tmp_path / "long", steps=12_340)
    columns = training_runs([folder]).data["runs"][0]["columns"]
    assert len(columns["step"]) <= POINTS
    assert columns["step"][0] == 20
    assert [value for value in columns["evaluation/accuracy"] if value is not None][-1] == 50 + 12_300 / 10


def test_damaged_and_empty_rows_are_left_out(tmp_path):
    folder = write_run(tmp_path / "a")
    with (folder / "run" / METRICS).open("a", encoding="utf-8") as file:
        file.write('{"step": 210, "loss": null, "note": "words"}\n{"step": 220, "lo')
    columns = training_runs([folder]).data["runs"][0]["columns"]
    assert columns["loss"][-1] is None
    assert columns["note"] == [None] * 21
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / METRICS).touch()
    assert training_runs([tmp_path / "new"]).data["runs"] == [{"name": "new", "columns": {}}]


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(NotFound, match=r"there is no metrics\.jsonl in .*; name the folder of a training run"):
        training_runs([tmp_path])
    with pytest.raises(BadInput, match="0 runs cannot be shown"):
        training_runs([])
    with pytest.raises(BadInput, match=f"{LIMIT + 1} runs cannot be shown; name 1 to {LIMIT}"):
        training_runs([tmp_path] * (LIMIT + 1))
    with pytest.raises(BadInput, match="not one"):
        training_runs(str(tmp_path))
