"""`clearhead bulk`: what it prints, how it ends, and that its options are those of the worker."""

import json
import sys

from bulk.rows import records, write_jsonl
from clearhead.bulk.uses import USES
from clearhead.cli.bulk import app


def test_every_use_is_a_verb_with_an_example():
    verbs = {one.name: one.callback.__doc__ for one in app.registered_commands}
    assert verbs.keys() == USES.keys()
    for use, about in verbs.items():
        assert f"Example: `clearhead bulk {use} " in about


def test_a_run_and_the_same_again(run, tmp_path, stand_in):
    path = write_jsonl(tmp_path / "a.jsonl", records(30))
    call = ("bulk", "classify", path, "--out", tmp_path / "out", "--model", stand_in, "--top-k", 1)
    call += ("--format", "jsonl", "--workers", 1)
    code, out, err = run(*call)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"30 rows in 1 file in {tmp_path / 'out'}",
        "1 row has no result; the column error says why",
    ]
    lines = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines if "error" in line] == [["id", "error"]]
    assert all(len(line["scores"]) == 1 for line in lines if "error" not in line)
    code, out, err = run(*call, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["done"] == 0


def test_what_is_wrong_is_one_sentence(run, tmp_path, stand_in):
    path = write_jsonl(tmp_path / "a.jsonl", [{"body": "a", "id": 1}])
    code, _, err = run("bulk", "embed", path, "--out", tmp_path / "out", "--model", stand_in)
    told = "a.jsonl has no column with a usual name for embed; it has 'body', 'id'; name it with --text (text=)"
    assert (code, err) == (2, f"error: {told}\n")
    code, _, err = run("bulk", "embed", path, "--text", "body", "--out", tmp_path / "out", "--layers", "x")
    assert (code, err) == (2, "error: --layers 'x' is not a list of numbers such as -4,-3,-2,-1\n")
    assert not (tmp_path / "out").exists()


def test_a_shard_that_cannot_be_read_is_named_and_the_rest_is_done(run, tmp_path, stand_in, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr("clearhead.bulk.job.read_rows", _fails_at_line_11)
    path = write_jsonl(tmp_path / "a.jsonl", records(30))
    call = ("bulk", "embed", path, "--out", tmp_path / "out", "--model", stand_in, "--shard-rows", 10)
    code, out, err = run(*call, "--on", "torchrun")
    assert code == 1
    assert "given up: shard 1 (a.jsonl, from line 11): the disk is tired" in out
    assert err == "run the same command again to try what was given up\n"
    monkeypatch.undo()
    assert sorted(one.name for one in (tmp_path / "out").glob("part*")) == [
        "part-000000.parquet",
        "part-000002.parquet",
    ]


def _fails_at_line_11(source, shard, wanted):
    from clearhead.bulk.inputs import read_rows
    from clearhead.errors import BadInput

    if shard.line == 11:
        raise BadInput("the disk is tired")
    return read_rows(source, shard, wanted)


def test_parquet_without_pyarrow_is_refused_before_anything_is_done(run, tmp_path, stand_in, monkeypatch):
    path = write_jsonl(tmp_path / "a.jsonl", records(3))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, printed, err = run("bulk", "embed", path, "--out", tmp_path / "out", "--model", stand_in)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "needs pyarrow, which is not installed" in err
    assert "--format jsonl" in err
    assert not (tmp_path / "out").exists()
