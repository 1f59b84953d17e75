"""What a run leaves in its folder for people."""

import errno
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from clearhead.errors import BadInput
from clearhead.training import monitor as module
from clearhead.training.monitor import Report, curve, read_rows
from training.toy import ToyTask, run


def test_curve(tmp_path):
    run(tmp_path, steps=6)
    picture = (tmp_path / "curve.svg").read_text()
    assert len(ElementTree.fromstring(picture).findall(".//{http://www.w3.org/2000/svg}polyline")) == 1
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")  # needs nothing from outside


def test_curves_of_long_empty_and_constant_runs():
    long = curve([{"step": step, "loss": 1 / (step + 1), "evaluation/loss": 0.5} for step in range(100_000)])
    assert len(long) < 20_000
    assert long.count("<polyline") == 2
    ElementTree.fromstring(curve([]))
    ElementTree.fromstring(curve([{"step": 1, "loss": 2.0}, {"step": 2, "loss": None}]))


def test_rewinding_drops_later_and_torn_rows(tmp_path):
    lines = [json.dumps({"step": step}) for step in (2, 4, 6)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 8, "lo')
    Report(tmp_path).begin(4, quiet=False)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 2}\n{"step": 4}\n'


def test_numbers_that_are_not_finite_stay_json(tmp_path):
    report = Report(tmp_path)
    report.begin(0, quiet=False)
    report.log({"step": 1, "norm": float("inf")})
    assert read_rows(tmp_path) == [{"step": 1, "norm": None}]


def test_quiet_writes_nothing(tmp_path):
    report = Report(tmp_path / "run")
    report.begin(0, quiet=True)
    report.log({"step": 1})
    report.rewind(0)
    report.draw()
    report.end()
    assert not (tmp_path / "run").exists()


def test_silent_without_a_terminal(tmp_path, capfd):
    run(tmp_path, steps=2)
    assert capfd.readouterr() == ("", "")


def test_a_line_a_minute_without_a_terminal(tmp_path, monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    report, other = Report(tmp_path), Report(tmp_path / "other")
    report.begin(0, quiet=False)
    other.begin(0, quiet=True)
    for step in range(1, 6):  # after 25, 50, 75, 100 and 125 seconds
        now[0] += 25.0
        report.tick(step, 1.25, 12_345.6, 0.25, 60.0)
        other.tick(step, 1.25, 12_345.6, 0.25, 60.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "step 3  loss 1.2500  12,346 tokens/s  25%  3:00 left\n"
    now[0] += 25.0
    report.tick(6, 1.0, 1.0, 0.5, 60.0)
    assert capsys.readouterr().err.startswith("step 6  loss 1.0000")


def test_progress_on_a_terminal(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(module.sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    report = Report(tmp_path)
    report.begin(0, quiet=False)
    report.tick(5, 1.25, 12_345.6, 0.25, 60.0)
    report.end()
    shown = terminal.getvalue()
    for part in ("step 5", "loss 1.2500", "12,346 tokens/s", "25%", "3:00 left"):
        assert part in shown


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_has_every_step_once_after_resuming(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def break_off(passes, _batch):
        if passes == 3 * 5:  # step 4 is logged, step 3 was saved
            raise KeyError

    with pytest.raises(KeyError):
        run(tmp_path, ToyTask(before=break_off), report=Report(tmp_path, tensorboard=True))
    run(tmp_path, report=Report(tmp_path, tensorboard=True))
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in found.Scalars("loss")] == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("name", ["metrics.jsonl", "curve.svg"])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(tmp_path, monkeypatch, name):
    real, calls = Path.open, []

    def full(path, mode="r", *options, **named):
        calls.extend([path] if path.name.endswith(name) and mode in ("a", "w") else [])
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, *options, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(BadInput, match=rf"cannot write .*{name}: No space left on device; .*resume"):
            run(tmp_path / "run")
    assert not list((tmp_path / "run").glob(f".{name}"))
    run(tmp_path / "run")
    run(tmp_path / "undisturbed")
    both = [read_rows(tmp_path / folder) for folder in ("run", "undisturbed")]
    ours, theirs = ([(row["step"], row["loss"]) for row in rows] for rows in both)
    assert ours == theirs


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write .*file/run: Not a directory; .*can be written to"):
        run(tmp_path / "file" / "run")
