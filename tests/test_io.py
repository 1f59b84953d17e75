"""Whole files and folders, or none: where they go, what stays, and who may write."""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clearhead import io
from clearhead.errors import BadInput
from clearhead.io import claimed, staged, staged_file


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write(folder: Path, content: str, *files: str, **how: bool) -> None:
    with staged(folder, **how) as stage:
        for name in files or ("config.json", "model.safetensors"):
            (stage / name).parent.mkdir(exist_ok=True)
            (stage / name).write_text(content)


def test_modes_are_those_of_the_mask(tmp_path):
    before = os.umask(0o027)
    try:
        with staged(tmp_path / "model") as stage:
            (stage / "1_Pooling").mkdir()
            for name in ("model.safetensors", "1_Pooling/config.json"):
                (stage / name).touch()
                (stage / name).chmod(0o600)  # as a library leaves it
        with staged_file(tmp_path / "page.html") as page:
            page.touch()
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    folders = {"model": 0o750, "model/1_Pooling": 0o750}
    files = dict.fromkeys(("model/model.safetensors", "model/1_Pooling/config.json", "page.html"), 0o640)
    assert modes == folders | files


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a link to a folder", "strangers"])
def test_a_folder_that_holds_nothing_of_ours_is_written_to(tmp_path, there):
    target = tmp_path / "model"
    if there == "a link to a folder":
        (tmp_path / "elsewhere").mkdir()
        target.symlink_to(tmp_path / "elsewhere")
    elif there != "nothing":
        target.mkdir()
    if there == "strangers":
        (target / "notes.txt").write_text("mine")
    write(target, "new")
    assert names(target) == ["config.json", "model.safetensors", *(["notes.txt"] if there == "strangers" else [])]
    assert target.is_symlink() == (there == "a link to a folder")
    with pytest.raises(
        BadInput, match=r"model/config\.json is there already; choose another name, or .*overwrite=True"
    ):
        write(target, "newer")
    write(target, "newer", overwrite=True)
    assert (target / "config.json").read_text() == "newer"
    assert (target / "notes.txt").exists() == (there == "strangers")


def test_what_is_replaced_goes_as_a_whole(tmp_path):
    write(tmp_path / "model", "old", "config.json", "modules.json", "1_Pooling/config.json", "README.md", "merges.txt")
    write(tmp_path / "model", "new", overwrite=True)
    assert names(tmp_path) == ["model/config.json", "model/model.safetensors"]


def test_a_stranger_keeps_the_folder_and_all_that_is_not_ours(tmp_path, monkeypatch):
    write(tmp_path / "model", "old", "config.json", "modules.json", "README.md")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    monkeypatch.setattr(io, "_exchange", None)
    write(tmp_path / "model", "new", overwrite=True)
    assert names(tmp_path / "model") == ["README.md", "config.json", "model.safetensors", "notes.txt"]


def test_the_folder_one_stands_in_stays(tmp_path, monkeypatch):
    write(tmp_path / "model", "old")
    monkeypatch.chdir(tmp_path / "model")
    write(Path(), "new", overwrite=True)
    assert names(Path.cwd()) == ["config.json", "model.safetensors"]


def test_in_the_folder_of_a_run_other_files_stay(tmp_path):
    write(tmp_path / "out", "a", "run/metrics.jsonl", "notes.txt", own=True)
    write(tmp_path / "out", "b", own=True)
    write(tmp_path / "out", "c", own=True)
    assert names(tmp_path / "out") == ["config.json", "model.safetensors", "notes.txt", "run/metrics.jsonl"]
    with pytest.raises(BadInput, match="is there already"):
        write(tmp_path / "out", "d")


def test_half_of_a_model_is_never_taken_for_one(tmp_path, monkeypatch):
    """File by file, config.json goes first and comes last, and what a failure brought goes again."""
    (tmp_path / "out" / "run").mkdir(parents=True)
    seen = []
    replace = os.replace

    def watch(source, target):
        seen.append((Path(target).name, (tmp_path / "out" / "config.json").exists()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    write(tmp_path / "out", "a", own=True)
    write(tmp_path / "out", "b", own=True)
    assert seen == [("model.safetensors", False), ("config.json", False)] * 2

    def fail(source, target):
        watch(source, target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(BadInput, match=r"out cannot be written to \(No space left on device\); make room"):
        write(tmp_path / "out", "c", "fresh.txt", own=True)
    assert names(tmp_path / "out") == ["config.json", "model.safetensors"]


def test_without_an_exchange_two_renames_do(tmp_path, monkeypatch):
    """As on a network disk; a kill between them leaves the old one aside, and the next claim brings it back."""
    write(tmp_path / "model", "old")
    monkeypatch.setattr("ctypes.CDLL", lambda _: None)
    write(tmp_path / "model", "new", overwrite=True)
    assert (tmp_path / "model" / "config.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    rename = os.rename
    calls = []

    def killed(source, target):
        calls.append(target)
        if len(calls) > 1:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "model", "newer", overwrite=True)
    monkeypatch.setattr(os, "rename", rename)
    assert [path.name for path in tmp_path.iterdir()] == [".replaced-model"]
    with claimed(tmp_path / "model"):
        assert (tmp_path / "model" / "config.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_left_overs_go_and_what_others_write_stays(tmp_path):
    for name in (
        ".saving-model.0a1b2c3d",
        "model/run/step-1/.saving-x1y2z3w4",
        "model/corpus/.saving-x1y2z3w4",
        "model/.saving-x1y2z3w4",
        ".saving-other.0a1b2c3d",
        ".saving-model.html.0a1b2c3d",
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "half").touch()
    with claimed(tmp_path / "model"):
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == [".model.lock", ".saving-model.html.0a1b2c3d", ".saving-other.0a1b2c3d", "model"]
    assert not [*(tmp_path / "model").rglob("*half")]


def test_one_writer_at_a_time_in_threads_too(tmp_path):
    with claimed(tmp_path / "out"), claimed(tmp_path / "out"), claimed(tmp_path / "out" / "deep"):
        assert (tmp_path / ".out.lock").read_text() == str(os.getpid())

        def other() -> None:
            with claimed(tmp_path / "out"):
                pass

        with ThreadPoolExecutor(1) as pool, pytest.raises(BadInput, match=f"by another process, {os.getpid()}; wait"):
            pool.submit(other).result()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", [1, 2])
def test_a_lock_that_goes_while_it_is_looked_at_is_taken_anew(tmp_path, monkeypatch, at):
    """Who held it before removes it as he lets go, which may be between any two steps of who comes next."""
    real, looks = Path.stat, []

    def stat(path, **options):
        if path.name == ".out.lock":
            looks.append(path)
            if len(looks) == at:
                path.unlink()
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    with claimed(tmp_path / "out"):
        assert (tmp_path / ".out.lock").read_text() == str(os.getpid())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file/below/x", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("/proc/x", "No such file or directory"),
    ],
)
def test_places_that_cannot_be_written_to(tmp_path, place, reason):
    (tmp_path / "file").touch()
    for write_to in (staged, staged_file):
        said = rf"cannot be written to \({reason}\); choose another place"
        with pytest.raises(BadInput, match=said), write_to(tmp_path / place):
            pytest.fail("it was given a stage")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_name_as_long_as_the_system_allows(tmp_path):
    name = "é" * 120 + ".html"
    for text in ("a", "b"):
        io.write_text(text, tmp_path / name, overwrite=text == "b")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "b")]


def test_other_errors_pass_and_nothing_is_left(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"), staged(tmp_path / "deep" / "model") as stage:
        (stage / "config.json").write_bytes(Path("nowhere.json").read_bytes())
    with pytest.raises(ZeroDivisionError), staged_file(tmp_path / "deep" / "page.html") as page:
        page.write_text(str(1 / 0))
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from clearhead import io, train_tokenizer
words = [train_tokenizer(texts=["a b c d"] * 3, vocabulary=size, min_frequency=1) for size in (12, 13)]
home = Path(sys.argv[1])
names = ("mkdir", "rename", "replace", "fsync", "unlink", "rmdir", "chmod")
plain = {name: getattr(os, name) for name in names}
exchange, calls = io._exchange, 0

def watched(call, last):
    def watch(*args, **options):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **options)
    return watch

last, status = 1, -1
while status != 0:
    place = home / str(last)
    words[0].save(place)
    old = (place / "tokenizer.json").read_bytes()
    child = os.fork()
    if child == 0:
        for name in names:
            setattr(os, name, watched(plain[name], last))
        io._exchange = watched(exchange, last)
        words[1].save(place, overwrite=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = sorted(path.name for path in place.iterdir()), (place / "tokenizer.json").read_bytes()
    words[1].save(place, overwrite=True)
    new = sorted(path.name for path in place.iterdir()), (place / "tokenizer.json").read_bytes()
    assert found in ((new[0], old), new), (last, found[0])
    assert not list(home.glob(".*")), last
    last += 1
print(last - 1)
"""


def test_killed_at_every_call_for_real(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10


def test_a_run_that_torchrun_started_again_waits_for_the_lock_of_the_dead(tmp_path, monkeypatch):
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with claimed(tmp_path / "run"):
            taken.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    with pytest.raises(BadInput, match="is being written to by another process"), claimed(tmp_path / "run", run=True):
        pass
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    monkeypatch.setattr(io, "_LOOK", 0.01)
    threading.Timer(0.1, leave.set).start()
    with claimed(tmp_path / "run", run=True):
        holder.join()
