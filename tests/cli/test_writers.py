"""Every command that writes, when something goes wrong at any of its calls to the system: old or new, never half."""

import builtins
import errno
import io as python_io
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead as ch
from clearhead import io
from clearhead.hub import weights

SENTENCE = "the street is wide and the animal was too tired to cross so it sat on the bank of the river"
WORDS = SENTENCE.split()
TEXT = "\n\n".join(" ".join(WORDS[i:] + WORDS[:i]) + "." for i in range(len(WORDS)))
TRAINED = ("config.json", "model.safetensors", "tokenizer.json", "skill.json", "adapter.safetensors")


@dataclass(frozen=True)
class Writer:
    """A command line; {out} is what it writes, {old} what it then is if another command wrote there before."""

    line: str
    out: str = "out"
    before: str | None = None  # a command that wrote something else to the same place
    run: bool = False  # it goes on with what it finds of itself


WRITERS = {
    "export": Writer("export {out} --model {model}", before="export {out} --model {other}"),
    "tokenizer": Writer(
        "tokenizer train {text} --out {out} --vocabulary 60",
        before="tokenizer train {text} --out {out} --vocabulary 70",
    ),
    "convert": Writer("convert {pickle} --out {out}", before="export {out} --model {other}"),
    "index": Writer(
        "search street --in {text} --index {out} --method bm25",
        before="search bank --in {more} --index {out} --method bm25",
    ),
    "vectors": Writer(
        "embed street --out {out} --model {model}", out="out.npy", before="embed bank --out {out} --model {other}"
    ),
    "predictions": Writer(
        "evaluate classify --data {table} --model {judge} --device cpu --predictions {out}",
        out="out.tsv",
        before="evaluate classify --data {fewer} --model {judge} --device cpu --predictions {out}",
    ),
    "page": Writer("look by-hand --out {out}", out="out.html", before="look runs {ended} --out {out}"),
    "pretrain": Writer(
        "pretrain --corpus {text} --out {out} --family bert --preset tiny --steps 2 --vocabulary 60 "
        "--set tokens=128 --set length=16 --set model.hidden_size=8 --set model.num_attention_heads=1 "
        "--set model.intermediate_size=8 --set train.every.save=1",
        run=True,
    ),
    "finetune": Writer(
        "finetune classify --data {table} --model {model} --out {out} --set train.steps=2 --set train.every.save=1",
        run=True,
    ),
    "skill": Writer(
        "finetune classify --data {table} --model {model} --out {out} --set lora=2 --skill-for classify "
        "--set train.steps=2 --set train.every.save=1",
        run=True,
    ),
    "translation": Writer(
        "finetune translation --data {source} {target} --model seq2seq-gru --out {out} --set vocabulary=300 "
        "--set train.steps=2 --set train.every.save=1 --set model.hidden_size=8 --set model.embedding_size=8",
        run=True,
    ),
    "distil": Writer(
        "distil --teacher {model} --corpus {text} --out {out} --steps 2 --set tokens=128 --set length=16 "
        "--set train.accumulate=1 --set train.every.save=1",
        run=True,
    ),
    "word vectors": Writer(
        "vectors train {text} --out {out} --set min_frequency=1 --set model.hidden_size=8 --set train.steps=2 "
        "--set train.every.save=1",
        run=True,
    ),
}
RUNS = {name: one for name, one in WRITERS.items() if one.run}
OTHERS = {name: one for name, one in WRITERS.items() if not one.run}


class Killed(BaseException):
    """What kill -9 is to a process: nothing that it would still do is done."""


class Disk:
    """The calls that change a disk, counted; the one of a number goes wrong, or all from it on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.fault: BaseException | None = None
        self.at, self.lasting, self._dead = -1, False, False
        for name in ("mkdir", "rename", "replace", "fsync", "unlink", "rmdir", "chmod"):
            patch.setattr(os, name, self._watched(getattr(os, name)))
        patch.setattr(os, "open", self._watched(os.open, lambda _path, flags, *_, **__: bool(flags & os.O_CREAT)))
        for module in (python_io, builtins):
            patch.setattr(module, "open", self._watched(open, lambda _path, mode="r", *_, **__: mode[:1] in "wax"))
        patch.setattr(io, "_exchange", self._watched(io._exchange))
        patch.setattr(weights, "save_file", self._watched(weights.save_file))

    def break_at(self, call: int, fault: BaseException, *, lasting: bool = False) -> None:
        """From now on count anew."""
        self.calls, self.at, self.fault, self.lasting, self._dead = 0, call, fault, lasting, False

    def mend(self) -> None:
        self.at, self._dead = -1, False

    def _watched(self, call: Callable[..., Any], counts: Callable[..., bool] = lambda *_, **__: True) -> Any:
        def watched(*args: Any, **options: Any) -> Any:
            if counts(*args, **options) and self.at >= 0:
                self.calls += 1
                hit = self.calls > self.at if self.lasting else self.calls == self.at + 1
                if self._dead or hit:
                    assert self.fault is not None
                    self._dead = self._dead or isinstance(self.fault, Killed)
                    if isinstance(self.fault, OSError) and isinstance(args[0], str | Path):  # as the system says it
                        raise OSError(self.fault.errno, self.fault.strerror, str(args[0]))
                    raise self.fault
            return call(*args, **options)

        return watched


@pytest.fixture(scope="module")
def home(tmp_path_factory, model, folder) -> dict[str, Path]:
    """What the commands read."""
    home = tmp_path_factory.mktemp("inputs")
    (home / "text.txt").write_text(TEXT)
    (home / "more.txt").write_text("a bank of the river\n")
    (home / "table.csv").write_text("text,label\n" + "".join(f"{word} here,{i % 2}\n" for i, word in enumerate(WORDS)))
    (home / "fewer.csv").write_text("text,label\nhere,1\n")
    for side in ("source", "target"):
        (home / f"{side}.txt").write_text("".join(f"{word} {side}\n" for word in WORDS))
    torch.manual_seed(1)
    heads = {"masked_lm": model.tokenizer.vocabulary}
    ch.Model.create(model.config, model.tokenizer, heads=heads).save(home / "other")
    ch.Model.create(model.config, model.tokenizer, heads=heads).save(home / "model")
    judge = model.with_head("classes", 2)
    ch.Model(replace(judge.checkpoint, description=replace(judge.checkpoint.description, labels=("0", "1")))).save(
        home / "judge", heads=["classes"]
    )
    (home / "pickle").mkdir()
    (home / "pickle" / "config.json").write_bytes((folder / "config.json").read_bytes())
    torch.save({"a": torch.ones(2)}, home / "pickle" / "pytorch_model.bin")
    (home / "run").mkdir()
    (home / "run" / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    names = {"text": "text.txt", "more": "more.txt", "table": "table.csv", "fewer": "fewer.csv", "ended": "run"}
    names |= {"source": "source.txt", "target": "target.txt"}
    return {name: home / names.get(name, name) for name in (*names, "model", "other", "judge", "pickle")}


@dataclass
class Stage:
    """A writer with a place to write to, and how it is asked."""

    writer: Writer
    out: Path
    home: dict[str, Path]
    run: Callable[..., tuple[int, str, str]]

    def call(self, line: str | None = None, *, overwrite: bool = False) -> tuple[int, str, str]:
        words = [word.format(out=self.out, **self.home) for word in (line or self.writer.line).split()]
        return self.run(*words, *(["--overwrite"] if overwrite else []))

    def state(self) -> dict[str, bytes]:
        """What is there, of a run what it was for."""
        if self.out.is_file():
            return {"": self.out.read_bytes()}
        files = [path for path in self.out.rglob("*") if path.is_file()] if self.out.is_dir() else []
        found = {str(path.relative_to(self.out)): path.read_bytes() for path in files}
        return {name: found[name] for name in TRAINED if name in found} if self.writer.run else found

    def left(self) -> list[str]:
        """What nobody asked for."""
        marks = (".saving-", ".replaced-", ".unfinished-", ".lock")
        return [path.name for path in self.out.parent.rglob("*") if any(mark in path.name for mark in marks)]


@pytest.fixture
def stage(run, home, tmp_path) -> Callable[[Writer, str], Stage]:
    def make(writer: Writer, where: str) -> Stage:
        return Stage(writer, tmp_path / where / writer.out, home, run)

    return make


@pytest.fixture
def disk(monkeypatch) -> Disk:
    return Disk(monkeypatch)


def count(disk: Disk, action: Callable[[], Any]) -> int:
    """How many calls an action makes, none of which fails."""
    disk.break_at(10**9, Killed())
    action()
    calls = disk.calls
    disk.mend()
    return calls


def some(points: int, most: int) -> list[int]:
    """So many of the points, the first and the last among them."""
    return (
        sorted({round(i * (points - 1) / max(most - 1, 1)) for i in range(most)}) if points > most else [*range(points)]
    )


MOST = {"few": 4, "all": 10**6}
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT)
thoroughly = pytest.mark.parametrize("points", ["few", pytest.param("all", marks=pytest.mark.slow)])


def undisturbed(place: Stage, disk: Disk, *, again: bool) -> tuple[dict[str, bytes], int]:
    """What the command makes, and with how many calls."""
    done: list[tuple[int, str, str]] = []
    if again:
        assert place.call(place.writer.before)[0] == 0
    calls = count(disk, lambda: done.append(place.call(overwrite=again)))
    assert done[0][0] == 0, done
    assert place.left() == []
    return place.state(), calls


@thoroughly
@pytest.mark.parametrize("again", [False, True], ids=["new", "replacing"])
@pytest.mark.parametrize("name", OTHERS)
def test_after_a_kill_the_old_or_the_new_is_there(name, again, points, stage, disk):
    new, calls = undisturbed(stage(WRITERS[name], "undisturbed"), disk, again=again)
    for point in some(calls, MOST[points]):
        place = stage(WRITERS[name], str(point))
        if again:
            place.call(place.writer.before)
        old = place.state()
        disk.break_at(point, Killed())
        with pytest.raises(Killed):
            place.call(overwrite=again)
        disk.mend()
        assert place.state() in (old, new), point
        assert place.call(overwrite=True)[0] == 0
        assert place.state() == new
        assert place.left() == []


@thoroughly
@pytest.mark.parametrize("name", OTHERS)
def test_what_the_system_refuses_is_one_sentence(name, points, stage, disk):
    new, calls = undisturbed(stage(WRITERS[name], "undisturbed"), disk, again=True)
    once_and_for_good = product(some(calls, MOST[points]), [False, True])
    for point, lasting in islice(once_and_for_good, 0, None, 3 if points == "few" else 1):
        place, number = stage(WRITERS[name], f"{point}-{lasting}"), ERRORS[point % len(ERRORS)]
        place.call(place.writer.before)
        old = place.state()
        disk.break_at(point, OSError(number, os.strerror(number)), lasting=lasting)
        code, _, err = place.call(overwrite=True)
        disk.mend()
        state = place.state()
        assert state in (old, new), point
        # to be unable to tidy up is no reason to fail
        assert code == 2 or state == new, point
        if code:
            assert err.startswith("error: ")
            assert err.count("\n") == 1
            assert str(place.out) in err
            assert os.strerror(number) in err
            assert ".saving-" not in err
        assert place.call(overwrite=True)[0] == 0
        assert place.state() == new
        assert place.left() == []


@pytest.mark.parametrize("name", OTHERS)
def test_a_disk_that_fills_up_is_one_sentence(name, stage):
    place = stage(WRITERS[name], "full")
    place.call(place.writer.before)
    old = place.state()
    largest = max(map(len, old.values()))
    for size in (0, 1, 100, 2000, largest // 2, largest - 1):
        with files_up_to(size):
            code, _, err = place.call(overwrite=True)
        if code == 0:  # it was all there is to write
            break
        assert (code, err.count("\n"), place.state(), place.left()) == (2, 1, old, [])
        assert err.startswith(f"error: {place.out}")
        assert "cannot be written to (File too large); make room" in err
    assert place.call(overwrite=True)[0] == 0


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let the system itself refuse what is longer, in libraries too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@thoroughly
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_killed_ends_as_if_nothing_had_been(name, points, stage, disk):
    new, calls = undisturbed(stage(WRITERS[name], "undisturbed"), disk, again=False)
    for point in some(calls, 4 if points == "few" else 40):
        place = stage(WRITERS[name], str(point))
        disk.break_at(point, Killed())
        with suppress(Killed):  # the first run in a process makes a call more than the others
            place.call()
        disk.mend()
        half = place.state()
        decided = {"config.json", "skill.json"} & half.keys()
        assert not decided or half == new, point
        code, _, err = place.call()
        assert code == 0, (point, err)
        assert place.state() == new
        assert place.left() == []


@thoroughly
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_the_system_stops_goes_on(name, points, stage, disk):
    new, calls = undisturbed(stage(WRITERS[name], "undisturbed"), disk, again=False)
    for point in some(calls, 3 if points == "few" else 40):
        place, number = stage(WRITERS[name], str(point)), ERRORS[point % len(ERRORS)]
        disk.break_at(point, OSError(number, os.strerror(number)), lasting=True)
        code, _, err = place.call()
        disk.mend()
        assert code == 2 or place.state() == new
        if code:
            assert (err.count("\n"), err[:7]) == (1, "error: ")
            assert str(place.out) in err
            assert os.strerror(number) in err
        code, _, err = place.call()
        assert code == 0, (point, err)
        assert place.state() == new
        assert place.left() == []


@pytest.mark.parametrize("name", WRITERS)
def test_a_clock_that_jumps_changes_nothing(name, stage, monkeypatch):
    calm, jumping = stage(WRITERS[name], "calm"), stage(WRITERS[name], "jumping")
    assert calm.call()[0] == 0
    now, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: now() + (86_400 if next(jumps) % 2 else -86_400))
    assert jumping.call()[0] == 0
    assert jumping.state() == calm.state()


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_there_is_refused_and_stays(name, stage, run, home):
    place = stage(WRITERS[name], "there")
    before = place.writer.before or "export {out} --model {other}"
    assert place.call(before)[0] == 0
    old = place.state()
    code, _, err = place.call()
    assert (code, err.count("\n")) == (2, 1)
    assert "is there already; choose another name, or replace it with --overwrite" in err
    assert place.state() == old
    assert place.left() == []
    assert place.call(overwrite=True)[0] == 0
    assert place.state() != old
    assert place.left() == []


def test_a_run_that_replaces_a_model_is_killed_and_asked_again(stage, disk):
    """The old model stays until the end; a run that goes on need not be told --overwrite again."""
    first = stage(WRITERS["finetune"], "undisturbed")
    first.call("export {out} --model {other}")
    calls = count(disk, lambda: first.call(overwrite=True))
    new = first.state()
    for point in some(calls, 5):
        place = stage(WRITERS["finetune"], str(point))
        place.call("export {out} --model {other}")
        (place.out / "modules.json").write_text("[]")  # which the new model has not
        old = place.state()
        disk.break_at(point, Killed())
        with suppress(Killed):
            place.call(overwrite=True)
        disk.mend()
        assert place.state() == old or "config.json" not in place.state() or place.state() == new, point
        begun = bool([*(place.out / "run").glob("step-*")])
        code, _, err = place.call(overwrite=not begun)
        assert code == 0, (point, err)
        assert place.state() == new
        assert not (place.out / "modules.json").exists()
        assert place.left() == []


@pytest.mark.parametrize("name", WRITERS)
def test_two_at_once_are_refused_at_once(name, stage):
    place = stage(WRITERS[name], "busy")
    place.out.parent.mkdir()
    script = "import sys, pathlib, clearhead.io as io\n"
    script += "with io.claimed(pathlib.Path(sys.argv[1])): print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, place.out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        code, _, err = place.call()
        todo = "wait until it ends, or choose another name"
        said = f"error: {place.out} is being written to by another process, {other.pid}; {todo}\n"
        assert (code, err, place.state()) == (2, said, {})
        other.send_signal(signal.SIGKILL)  # its lock goes with it
        other.wait()
    assert place.call()[0] == 0
    assert place.left() == []
