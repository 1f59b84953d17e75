"""Shards are done once, whoever is killed when: the same bytes as if nothing had been."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import clearhead as ch
from bulk.rows import parts, records, write_jsonl, write_parquet, written
from clearhead.bulk import engines
from clearhead.bulk.job import MANIFEST
from clearhead.bulk.run import run_bulk
from clearhead.errors import BadInput, ClearheadError

ROWS, SHARD_ROWS, SHARDS = 120, 25, 5  # of row groups of 50, cut into two each, and the rest


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("in") / "a.parquet", records(ROWS))


@pytest.fixture(scope="module")
def call(given, stand_in):
    def call(out, **options):
        named = {"model": str(stand_in), "shard_rows": SHARD_ROWS, "workers": 2, "keep": ["stars"]} | options
        return run_bulk(named.pop("use", "embed"), named.pop("inputs", given), out, **named)

    return call


@pytest.fixture(scope="module")
def undisturbed(call, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    found = call(out)
    assert (found.shards, found.done, found.rows, found.errors, found.failed) == (SHARDS, SHARDS, ROWS, 5, ())
    return parts(out)


@pytest.fixture
def poison(monkeypatch, tmp_path):
    """Let workers kill themselves."""
    (tmp_path / "poison").mkdir()

    def poison(shard, moment, times):
        monkeypatch.setenv("POISON", f"{shard}:{moment}:{times}")
        monkeypatch.setenv("POISON_FOLDER", str(tmp_path / "poison"))
        tests = str(Path(__file__).parents[1])
        script = f"import sys; sys.path.insert(0, {tests!r}); from bulk.poison import main; main()"
        monkeypatch.setattr(engines.Local, "command", (sys.executable, "-c", script))
        return tmp_path / "poison"

    return poison


def test_results_are_those_of_the_worker(undisturbed, tmp_path, stand_in):
    for name, content in undisturbed.items():
        (tmp_path / name).write_bytes(content)
    table = pq.read_table(tmp_path)
    assert table.column_names == ["id", "stars", "vector", "error"]
    assert str(table.schema.field("vector").type).startswith("fixed_size_list<")
    rows = records(ROWS)
    assert table["id"].to_pylist() == [row["id"] for row in rows]
    assert table["stars"].to_pylist() == [row["stars"] for row in rows]
    missing = [row["text"] is None for row in rows]
    assert [one is not None for one in table["error"].to_pylist()] == missing
    worker = ch.Worker("embed", model=str(stand_in))
    first = worker({"text": [row["text"] for row in rows[:SHARD_ROWS]]})["vector"]
    shard = pq.read_table(tmp_path / "part-000000.parquet")["vector"].combine_chunks()
    assert shard.values.to_numpy().tobytes() == first.tobytes()


def test_one_worker_gives_the_same_bytes_and_a_second_call_does_nothing(call, undisturbed, tmp_path):
    assert call(tmp_path / "out", workers=1).done == SHARDS
    assert parts(tmp_path / "out") == undisturbed
    before = {path: written(path) for path in (tmp_path / "out").iterdir()}
    found = call(tmp_path / "out", workers=1)
    assert (found.done, found.rows, found.errors) == (0, ROWS, 5)
    assert {path: written(path) for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("moment", ["begin", "compute", "written", "renamed"])
def test_a_worker_that_is_killed_is_replaced(call, undisturbed, tmp_path, poison, moment):
    killed = poison(2, moment, 2)
    told = []
    found = call(tmp_path / "out", progress=told.append)
    assert len(list(killed.iterdir())) == (1 if moment == "renamed" else 2)  # it is there, and nobody does it again
    assert (found.done, found.failed, sum(told)) == (SHARDS, (), ROWS)
    assert parts(tmp_path / "out") == undisturbed


def test_a_shard_that_kills_every_worker_is_given_up_and_named(call, undisturbed, tmp_path, poison, monkeypatch):
    poison(2, "compute", 99)
    found = call(tmp_path / "out")
    (one,) = found.failed
    assert (one.shard, one.source, one.line) == (2, "a.parquet", 51)
    assert one.why == "3 workers were lost on it; its worker ended with signal SIGKILL"
    assert (found.done, found.rows) == (SHARDS - 1, ROWS - SHARD_ROWS)
    done = {name: content for name, content in undisturbed.items() if name != "part-000002.parquet"}
    assert {name: content for name, content in parts(tmp_path / "out").items() if name[0] != "."} == done
    monkeypatch.undo()
    assert call(tmp_path / "out", workers=1).done == 1
    assert parts(tmp_path / "out") == undisturbed


def start(out, given, stand_in, *more):
    command = [sys.executable, "-m", "clearhead", "bulk", "embed", given, "--out", out, "--model", stand_in]
    command += ["--shard-rows", SHARD_ROWS, "--workers", 2, "--keep", "stars", *more]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def children(parent: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def is_there(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for children as Linux lists them")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_driver_is_killed_and_its_workers_end(undisturbed, tmp_path, given, stand_in, call, number):
    out = tmp_path / "out"
    with start(out, given, stand_in) as driver:
        workers: list[int] = []
        while not list(out.glob("part-*")):
            workers = children(driver.pid) or workers
            time.sleep(0.005)
        driver.send_signal(number)
        _, err = driver.communicate()
    while any(map(is_there, workers)):
        time.sleep(0.01)
    assert len(workers) == 2
    # on a busy machine it may have ended by itself; and a shell may have told it to pass Ctrl-C over
    assert driver.returncode in (-signal.SIGKILL if number == signal.SIGKILL else 130, 0)
    if driver.returncode == 130:
        assert err.endswith("shards are done; run the same command again to go on\n")
        assert "Traceback" not in err
    finished = {path: written(path) for path in out.glob("part-*")}
    assert all(undisturbed[path.name] == path.read_bytes() for path in finished)
    found = call(out)
    assert found.done == SHARDS - len(finished)
    assert parts(out) == undisturbed
    assert {path: written(path) for path in finished} == finished


def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on(call, undisturbed, tmp_path):
    out, largest = tmp_path / "out", max(map(len, undisturbed.values()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, hard))  # for workers too
    try:
        with pytest.raises(BadInput, match=r"part-.* cannot be written to \(File too large\); make room") as refused:
            call(out, workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ".saving-" not in str(refused.value)
    assert all(undisturbed[name] == content for name, content in (parts(out) if out.exists() else {}).items())
    call(out)
    assert parts(out) == undisturbed


@pytest.mark.skipif(os.geteuid() != 0 if hasattr(os, "geteuid") else True, reason="mounts a small disk")
def test_a_disk_that_is_really_full(call, undisturbed, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk may be mounted here")
    try:
        with pytest.raises(BadInput, match=r"cannot be written to \(No space left on device\); make room"):
            call(disk / "out", workers=1)
        left = parts(disk / "out")
        assert 1 < len(left) < len(undisturbed)
        assert all(undisturbed[name] == content for name, content in left.items())
        subprocess.run([*mount[:4], "remount,size=1m", *mount[5:]], check=True)
        call(disk / "out")
        assert parts(disk / "out") == undisturbed
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_another_job_is_refused_with_what_differs(call, tmp_path, stand_in, given):
    out = tmp_path / "out"
    call(out, workers=1, use="classify")
    before = parts(out)
    other = write_parquet(tmp_path / "b.parquet", records(30))
    for options, message in (
        ({"use": "embed"}, "it is for classify, not embed"),
        ({"use": "classify", "top_k": 1}, "options top_k was None and is 1"),
        ({"use": "classify", "skill": "spam"}, "skill was None and is 'spam'"),
        ({"use": "classify", "shard_rows": 30}, "shard_rows was 25 and is 30"),
        ({"use": "classify", "threads": 2}, "numbers threads was 1 and is 2"),
        ({"use": "classify", "how": "jsonl"}, "format was 'parquet' and is 'jsonl'"),
        ({"use": "classify", "keep": []}, r"columns keep was \['stars'\] and is \[\]"),
        ({"use": "classify", "inputs": other}, "the file a.parquet is no longer among the inputs"),
        ({"use": "classify", "inputs": [given, other]}, "the file .* is no longer among the inputs|was not among"),
    ):
        with pytest.raises(BadInput, match=f"{out} holds another run: .*{message}.* begin anew with --restart"):
            call(out, **options)
    assert parts(out) == before
    call(out, workers=1, use="classify", skill="spam", restart=True)
    assert parts(out).keys() == before.keys()
    assert parts(out) != before


def test_other_weights_and_other_files_of_one_name_are_another_job(tmp_path, folder):
    from shutil import copytree

    copytree(folder, tmp_path / "model")
    path = write_jsonl(tmp_path / "a.jsonl", records(10))
    named = {"model": str(tmp_path / "model"), "workers": 1, "how": "jsonl"}
    run_bulk("embed", path, tmp_path / "out", **named)
    write_jsonl(path, records(11))
    with pytest.raises(BadInput, match=r"the file a\.jsonl has changed"):
        run_bulk("embed", path, tmp_path / "out", **named)
    write_jsonl(path, records(10))
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"gelu"', '"relu"'))
    with pytest.raises(BadInput, match="the model has other weights"):
        run_bulk("embed", path, tmp_path / "out", **named)


def test_what_is_refused_leaves_nothing(call, tmp_path):
    for options, message in (
        ({"skill": "nothing"}, "there is no skill 'nothing'"),
        ({"keep": ["nothing"]}, r"a\.parquet has no column 'nothing' to keep; it has 'id', 'text', 'stars'"),
        ({"text": "nothing"}, r"a\.parquet has no column 'nothing'"),
        ({"how": "csv"}, "format 'csv' is not known"),
        ({"on": "spark"}, "--on spark is not known; choose local, ray or torchrun"),
        ({"workers": 0}, "0 workers do nothing"),
        ({"shard_rows": 0}, "shards of 0 rows hold nothing"),
        ({"use": "generate"}, "writes no text and cannot generate"),
    ):
        with pytest.raises(ClearheadError, match=message):
            call(tmp_path / "deep" / "out", **options)
        assert not (tmp_path / "deep").exists(), options


def test_a_folder_that_holds_something_else_is_refused(call, tmp_path, folder):
    with pytest.raises(BadInput, match="is there already"):
        call(folder)
    (tmp_path / "part-000000.parquet").touch()
    with pytest.raises(BadInput, match=f"holds part-000000.parquet and no {MANIFEST}"):
        call(tmp_path)


def test_two_drivers_are_refused(call, tmp_path):
    script = "import sys, pathlib, clearhead.io as io\n"
    script += "with io.claimed(pathlib.Path(sys.argv[1])): print(1, flush=True); input()"
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        with pytest.raises(BadInput, match=f"is being written to by another process, {other.pid}"):
            call(tmp_path / "out")
        other.communicate("\n")


def test_ranks_do_each_their_own_and_together_all(call, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank in (3, 0, 2, 1):
        monkeypatch.setenv("RANK", str(rank))
        found = call(tmp_path / "out", workers=None)
        assert found.done == found.shards == len(range(rank, SHARDS, 4))
    assert parts(tmp_path / "out") == undisturbed
    with pytest.raises(BadInput, match="none may empty the folder of the others"):
        call(tmp_path / "out", workers=None, restart=True)
    monkeypatch.setenv("RANK", "4")
    with pytest.raises(BadInput, match="are no place among ranks"):
        call(tmp_path / "out", workers=None)


def test_jsonl_says_the_same_and_names_rows_by_their_lines(stand_in, tmp_path):
    rows = [{"text": row["text"], "when": {"year": 1815}} for row in records(30)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    found = run_bulk("classify", path, tmp_path / "out", model=str(stand_in), how="jsonl", keep=["when"], workers=1)
    lines = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()]
    assert found.errors == sum("error" in line for line in lines) == 1
    assert [line["line"] for line in lines] == list(range(1, 31))
    assert list(lines[0]) == ["source", "line", "when", "label", "score", "scores"]
    assert lines[3] == {"source": "a.jsonl", "line": 4, "when": {"year": 1815}, "error": "text is missing"}
    assert run_bulk(
        "classify", path, tmp_path / "out", model=str(stand_in), how="jsonl", keep=["when"], workers=1
    ) == type(found)(found.folder, 1, 0, 30, 1, ())


def test_ids_of_one_name_and_several_types_are_text(stand_in, tmp_path):
    named = [write_jsonl(tmp_path / "a.jsonl", [{"id": 1, "text": "a"}, {"id": "b", "text": "the"}])]
    named.append(write_parquet(tmp_path / "b.parquet", [{"id": 7, "text": "it"}]))
    run_bulk("embed", named, tmp_path / "out", model=str(stand_in), workers=1)
    assert pq.read_table(tmp_path / "out")["id"].to_pylist() == ["1", "b", "7"]
