"""What a run leaves in its folder for people, and what happens after bad steps."""

import errno
import io
import json
import math
import os
import signal
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput, ClearheadError
from clearhead.training import monitor as module
from clearhead.training.checkpoint import checkpoints, network_tensors
from clearhead.training.monitor import SETTLED, Report, RunningStats, curve, is_bad, read_rows
from clearhead.training.optim import make_optimisers, optimiser_tensors
from clearhead.training.settings import Every
from clearhead.training.step import PendingMetrics
from clearhead.training.trackers import TensorBoard
from training.toy import Poisoned, ToyTask, final_tensors, network, rows, run, settings


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
        run(tmp_path, ToyTask(before=break_off), report=Report(tmp_path, trackers=[TensorBoard()]))
    run(tmp_path, report=Report(tmp_path, trackers=[TensorBoard()]))
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


NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def settled(values: list[float]) -> RunningStats:
    noise = RunningStats()
    for value in values:
        noise.add(value)
    return noise


def test_what_a_bad_step_is():
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(500, generator=draw).exp().tolist()
    norms, losses = settled(values), settled([2.0, 2.2] * 100)

    def bad(norm: float, loss: float) -> bool:
        return bool(is_bad(norms, losses, torch.tensor(norm), torch.tensor(loss)))

    assert not any(bad(value, 2.2) for value in values)
    assert bad(math.nan, 2.0)
    assert bad(1.0, math.inf)
    assert bad(1e4, 6.0)
    assert not bad(1e4, 1.0)  # leaving a plateau
    assert not bad(1.0, 6.0)  # a hard batch, and clipping is enough
    assert not is_bad(RunningStats(), RunningStats(), torch.tensor(1e4), torch.tensor(6.0))  # too early to tell


def test_a_lasting_new_level_is_accepted():
    noise, refused = settled([1.0] * SETTLED), 0
    while noise.limit(6.0, 10.0) < 100.0:
        noise.add(100.0)
        refused += 1
    assert 1 <= refused <= 10


@pytest.mark.parametrize("optimiser", ["adamw", "muon", "lamb", "adafactor"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def test_a_step_that_is_not_finite_is_skipped(tmp_path, optimiser, device):
    task = ToyTask()
    result = run(tmp_path, task, Poisoned(task, 4, 4, math.nan), steps=6, optimiser=optimiser, device=device)
    assert result.exit == "finished"
    assert all(tensor.isfinite().all() for tensor in network_tensors(task.network).values())
    skipped = final_tensors(tmp_path)["optimiser.encoder.embeddings.token.weight/step"]
    assert skipped == 5  # of 6: batches 3, 4 and 5 are one step
    assert all(math.isfinite(row["loss"]) for row in rows(tmp_path))


def test_a_step_is_asked_about_when_the_next_is_under_way(tmp_path, monkeypatch):
    seen, read = [], PendingMetrics.read
    monkeypatch.setattr(PendingMetrics, "read", lambda sent: seen.append("read") or read(sent))
    task = ToyTask(before=lambda _passes, _batch: seen.append("pass"))
    run(tmp_path, task, steps=6, accumulate=1, every=Every(log=4, save=100, evaluate=100))
    # at once only the first, the one that is logged, and the last
    expected = ["pass", "read", "pass", "pass", "read", "pass", "read", "read", "pass", "pass", "read", "read"]
    assert seen == expected


@pytest.mark.parametrize("optimiser", ["adamw", "muon", "lamb"])
def test_optimisers_leave_a_step_out_without_the_host(optimiser):
    nets = [network(), network()]
    made = [make_optimisers(net, settings(optimiser=optimiser, weight_decay=0.1)) for net in nets]
    for number in range(4):
        for net, optimisers in zip(nets, made, strict=True):
            poisoned = number == 2
            if poisoned and net is nets[1]:
                continue
            for weight in net.parameters():
                weight.grad = torch.full_like(weight, math.nan) if poisoned else weight.detach().sin()
            for each in optimisers:
                if net is nets[0]:
                    each.found_inf = torch.tensor(float(poisoned))
                each.step()
    ours, theirs = (optimiser_tensors(found, net) for found, net in zip(made, nets, strict=True))
    for one, other in ((network_tensors(nets[0]), network_tensors(nets[1])), (ours, theirs)):
        assert one.keys() == other.keys()
        for name in one:
            assert_close(one[name], other[name], atol=0, rtol=0)


def test_bad_steps_in_a_row_go_back_and_past_the_batches(tmp_path):
    task = ToyTask()
    # the checkpoint of step 3 has seen batches 0 to 8; steps 5 to 9 (batches 12 to 26) are bad
    result = run(tmp_path, task, Poisoned(task, 12, 26, math.inf), steps=12)
    assert result.exit == "finished"
    assert [row["step"] for row in rows(tmp_path)] == [2, 4, 6, 8, 10, 12]
    assert final_tensors(tmp_path)["optimiser.encoder.embeddings.token.weight/step"] == 12


def test_hopeless_runs_stop_with_an_explanation(tmp_path):
    task = ToyTask()
    with pytest.raises(ClearheadError, match=r"diverged at step 5: 5 steps in a row .* 0 times gone back; lower learn"):
        run(tmp_path / "early", task, Poisoned(task, 0, 100, math.nan))
    with pytest.raises(ClearheadError, match=r"diverged at step .* 2 times gone back"):
        run(tmp_path / "late", task, Poisoned(task, 12, 200, math.nan), steps=100)
    assert checkpoints(tmp_path / "late")


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    def blow_up(passes, _batch):
        if passes == 3 * 4:  # the last step before the save of step 4
            task.network.heads["classes"].classifier.weight.data[0, 0] = math.nan

    every, task = Every(log=100, save=2, evaluate=100), ToyTask(before=blow_up)
    with pytest.raises(
        ClearheadError, match=r"diverged at step 4: heads\.classes\.\S+ holds .* not finite.*lower learn"
    ):
        run(tmp_path, task, steps=4, every=every)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002"]


def test_interrupted_between_bad_steps_goes_the_same_way(tmp_path):
    whole, halves = ToyTask(), ToyTask()
    run(tmp_path / "whole", whole, Poisoned(whole, 12, 26, math.inf), steps=12)
    source = Poisoned(halves, 12, 26, math.inf)
    poison, stops = halves.before, []

    def stop_once(passes, batch):
        assert poison is not None
        poison(passes, batch)
        if passes == 20:
            stops.append(passes)
            raise KeyError

    halves.before = stop_once
    with pytest.raises(KeyError):
        run(tmp_path / "halves", halves, source, steps=12)
    run(tmp_path / "halves", halves, source, steps=12)
    ours, theirs = final_tensors(tmp_path / "halves"), final_tensors(tmp_path / "whole")
    assert stops
    for name in ours:
        assert_close(ours[name], theirs[name], atol=0, rtol=0)


@pytest.mark.parametrize(
    "every", [Every(log=100, save=3, evaluate=100, keep=1), Every(log=2, save=3, evaluate=1, keep=1)]
)
def test_stopped_after_every_step_goes_the_same_way(tmp_path, every):
    def go(folder, *, stop: bool):
        task = ToyTask()
        source = Poisoned(task, 12, 26, math.inf)
        poison = task.before

        def before(passes, batch):
            poison(passes, batch)
            if stop and passes == 1:
                os.kill(os.getpid(), signal.SIGINT)

        task.before = before
        weight = task.network.encoder.embeddings.token.weight
        # a metric that goes up and down, and is the same for the same weights
        return run(
            folder, task, source, evaluate=lambda: {"f1": math.sin(1e3 * weight.sum())}, metric="f1", every=every
        )

    whole, sessions = go(tmp_path / "whole", stop=False), 1
    while (result := go(tmp_path / "pieces", stop=True)).exit == "interrupted":
        sessions += 1
    assert sessions > 12  # those that were rolled back are among them
    assert (result.best, result.best_step) == (whole.best, whole.best_step)
    ours, theirs = final_tensors(tmp_path / "pieces"), final_tensors(tmp_path / "whole")
    for name in ours:
        assert_close(ours[name], theirs[name], atol=0, rtol=0)
    names = [sorted(path.name for path in (tmp_path / one).iterdir()) for one in ("whole", "pieces")]
    assert names[0] == names[1]
