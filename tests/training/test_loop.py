"""The loop learns, evaluates, stops early, and does not care which task it trains."""

import math
import os
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.data.rng import Phases
from clearhead.errors import BadConfig, BadInput
from clearhead.objectives.loss import Loss
from clearhead.training.checkpoint import checkpoints, network_tensors
from clearhead.training.loop import Prefetch
from clearhead.training.settings import Every
from training.toy import ToySource, ToyTask, assert_same, rows, run

OFTEN = {"every": Every(log=100, save=100, evaluate=1)}


def test_the_loss_goes_down(tmp_path):
    class Few(ToySource):
        def batch(self, index: int) -> Batch:
            return super().batch(index % 3)

    run(tmp_path, ToyTask(dropout=0.0), Few(), steps=60, every=Every(log=10, save=100))
    found = rows(tmp_path)
    assert found[-1]["loss"] < 0.5 * found[0]["loss"]
    assert found[-1].keys() >= {"step", "epoch", "tokens", "elapsed", "masked_lm", "masked_lm/accuracy", "norm"}
    assert found[-1]["loss"] == pytest.approx(found[-1]["masked_lm"] + 0.5 * found[-1]["next_sentence"])


def test_evaluation_sees_a_network_at_rest(tmp_path):
    task, seen = ToyTask(), []

    def evaluate():
        seen.append((task.network.training, torch.is_grad_enabled()))
        return {"f1": 0.5}

    run(tmp_path, task, steps=9, evaluate=evaluate)
    assert seen == [(False, False)] * 3  # at 4, at 8, and at the end
    assert [row["step"] for row in rows(tmp_path) if "evaluation/f1" in row] == [4, 8, 9]
    assert task.network.training


def test_early_stopping_keeps_the_best(tmp_path):
    task, kept = ToyTask(), []
    values = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.9])

    def evaluate():
        kept.append({name: tensor.clone() for name, tensor in network_tensors(task.network).items()})
        return {"f1": next(values)}

    result = run(tmp_path, task, evaluate=evaluate, metric="f1", patience=3, **OFTEN)
    assert (result.exit, result.step, result.best, result.best_step) == ("stopped early", 5, 0.5, 2)
    for name, tensor in network_tensors(task.network).items():
        assert torch.equal(tensor, kept[1][name])
    assert [path.name for path in checkpoints(tmp_path, "best")] == ["best-00000002"]
    again = run(tmp_path, ToyTask(), evaluate=evaluate, metric="f1", patience=3, **OFTEN)
    assert (again.began, replace(again, began=0)) == (5, result)


def test_smaller_can_be_better(tmp_path):
    values = iter([3.0, 1.0, 2.0])
    result = run(tmp_path, steps=3, evaluate=lambda: {"loss": next(values)}, metric="-loss", **OFTEN)
    assert (result.exit, result.best, result.best_step) == ("finished", 1.0, 2)


def test_a_metric_that_is_not_defined_is_never_the_best(tmp_path):
    values = iter([math.nan, 0.2, math.nan, 0.3])
    result = run(tmp_path, steps=4, evaluate=lambda: {"f1": next(values)}, metric="f1", **OFTEN)
    assert (result.best, result.best_step) == (0.3, 4)
    result = run(tmp_path / "never", steps=2, evaluate=lambda: {"f1": math.nan}, metric="f1", **OFTEN)
    assert (result.exit, result.best, result.best_step) == ("finished", None, None)


def test_a_metric_needs_an_evaluation_that_gives_it(tmp_path):
    with pytest.raises(BadConfig, match="metric 'f1' needs an evaluation"):
        run(tmp_path, metric="f1")
    with pytest.raises(BadConfig, match="gives no 'f1' for metric; it gives accuracy"):
        run(tmp_path, metric="f1", evaluate=lambda: {"accuracy": 1.0})


def test_what_the_last_evaluation_fails_by_loses_no_step(tmp_path):
    torch.set_num_threads(1)
    whole, calls = tmp_path / "whole", []
    run(whole, evaluate=lambda: {"f1": 0.5}, metric="f1")

    def evaluate():
        calls.append(1)
        if len(calls) in (1, 4):
            raise KeyError("IN")
        return {"f1": 0.5}

    folder = tmp_path / "failing"
    with pytest.raises(KeyError, match="IN"):  # at step 4, where no checkpoint was due
        run(folder, evaluate=evaluate, metric="f1")
    assert [path.name for path in checkpoints(folder)] == ["step-00000003", "step-00000004"]
    failed = run(folder, evaluate=evaluate, metric="f1", raise_failure=False)
    assert (failed.exit, failed.step, failed.began, str(failed.failure)) == ("finished", 12, 4, "'IN'")
    task = ToyTask()
    mended = run(folder, task, evaluate=evaluate, metric="f1")
    assert (mended.exit, mended.failure, mended.best_step, task.passes, len(calls)) == ("finished", None, 4, 0, 5)
    assert_same(folder, whole)


def test_a_metric_that_is_not_there_is_said_when_the_weights_are_saved(tmp_path):
    rarely = Every(log=100, save=100, evaluate=100)
    with pytest.raises(BadConfig, match="gives no 'f1' for metric; it gives accuracy"):
        run(tmp_path, metric="f1", evaluate=lambda: {"accuracy": 1.0}, every=rarely)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000012"]


def test_a_device_that_no_library_knows_is_refused(tmp_path):
    with pytest.raises(BadInput, match="there is no device 'tpu'; choose cpu or cuda"):
        run(tmp_path, device="tpu")


def test_ctrl_c_saves_and_the_next_one_interrupts(tmp_path):
    before = signal.getsignal(signal.SIGINT)

    def press(passes, _batch):
        if passes == 4:
            os.kill(os.getpid(), signal.SIGINT)

    result = run(tmp_path, ToyTask(before=press))
    assert (result.exit, result.step, result.signal) == ("interrupted", 2, signal.SIGINT)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002"]

    def press_twice(passes, _batch):
        if passes <= 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, ToyTask(before=press_twice))
    assert signal.getsignal(signal.SIGINT) is before


class LineTask:
    """No Transformer, no heads: a line through numbers hidden in the targets."""

    def __init__(self) -> None:
        self.network = nn.Linear(1, 1)
        self.weights = {"square": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"square": batch.tokens}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        x = batch.ids.float().unsqueeze(-1) / 10
        return {"square": Loss((self.network(x) - 2 * x - 1).square().sum(), batch.tokens)}


class Numbers(ToySource):
    def batch(self, index: int) -> Batch:
        return Batch.of([[index % 10, (index + 3) % 10], [(index * 7) % 10]])


def test_any_task_is_trained(tmp_path):
    task = LineTask()
    every = Every(log=100, save=1000)
    run(tmp_path, task, Numbers(), steps=100, learning_rate=0.2, weight_decay=0.0, every=every)  # type: ignore[arg-type]
    assert_close(task.network.weight.item(), 2.0, atol=0.05, rtol=0)
    assert_close(task.network.bias.item(), 1.0, atol=0.05, rtol=0)


def test_batches_come_in_order_whatever_was_expected():
    class Plain(ToySource):
        def batch(self, index: int) -> Batch:
            if index == 99:
                raise KeyError(index)
            return Batch.of([[index]])

    with Prefetch(Plain(), pin=False) as batches:
        assert [batch.ids.item() for batch in batches.take([0, 1], [2, 3])] == [0, 1]
        assert [batch.ids.item() for batch in batches.take([3, 7], [99])] == [3, 7]
        with pytest.raises(KeyError):
            batches.take([99])


def test_a_run_turns_to_its_second_source_by_its_progress(tmp_path):
    read = []
    task = ToyTask(before=lambda _passes, batch: read.append(batch.ids))
    early, late = ToySource(seed=1), ToySource(seed=2)
    run(tmp_path, task, Phases(early, late, 0.75), steps=4, accumulate=2)  # type: ignore[arg-type]
    expected = [early.batch(index).ids for index in range(6)] + [late.batch(index).ids for index in (6, 7)]
    assert len(read) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(read, expected, strict=True))
    assert Phases(early, late, 0.75).epoch_of(20) == late.epoch_of(20)


def test_best_weights_of_a_forgotten_run_are_not_taken_for_ours(tmp_path):
    values = iter([2.0, 1.0, 2.0, 1.0])
    kept = []
    for _ in range(2):
        task = ToyTask()
        run(tmp_path, task, steps=2, evaluate=lambda: {"f1": next(values)}, metric="f1", seed=len(kept), **OFTEN)
        kept.append(network_tensors(task.network))
        for path in checkpoints(tmp_path):
            shutil.rmtree(path)
    assert any(not torch.equal(tensor, kept[1][name]) for name, tensor in kept[0].items())
