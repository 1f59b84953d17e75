"""A bad step is skipped; bad steps in a row send the run back; then it stops and says why."""

import math
import os
import signal

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import ClearheadError
from clearhead.training.checkpoint import checkpoints, network_tensors
from clearhead.training.monitor import SETTLED, RunningStats, is_bad
from clearhead.training.optim import make_optimisers, optimiser_tensors
from clearhead.training.settings import Every
from clearhead.training.step import PendingMetrics
from training.toy import Poisoned, ToyTask, final_tensors, network, rows, run, settings

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


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
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


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
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
