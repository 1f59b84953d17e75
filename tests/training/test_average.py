"""The mean of the last checkpoints' weights at the end of a run, the same for a run that was stopped on its way."""

import os
import signal

import pytest
import torch

from clearhead.errors import BadConfig
from clearhead.hub.weights import read_tensors
from clearhead.training.checkpoint import TENSORS, checkpoints, network_tensors, step_of
from clearhead.training.settings import Every, Settings
from training.toy import ToyTask, run


def every(average: int = 1, evaluate: int = 100) -> Every:
    return Every(log=100, save=3, evaluate=evaluate, keep=1, average=average)


def test_the_run_ends_with_the_mean_of_its_last_checkpoints(tmp_path):
    task = ToyTask()
    run(tmp_path, task, steps=11, every=every(3))
    paths = checkpoints(tmp_path)
    assert [step_of(path) for path in paths] == [6, 9, 11]
    saved = [read_tensors(path / TENSORS) for path in paths]
    for name, tensor in network_tensors(task.network).items():
        mean = sum(one[f"network.{name}"].double() for one in saved) / 3
        torch.testing.assert_close(tensor, mean.to(tensor.dtype), atol=1e-7, rtol=0)


def test_a_run_without_averaging_ends_with_its_last_weights(tmp_path):
    task = ToyTask()
    run(tmp_path, task, steps=4, every=every())
    (last,) = checkpoints(tmp_path)
    saved = read_tensors(last / TENSORS)
    for name, tensor in network_tensors(task.network).items():
        assert torch.equal(tensor, saved[f"network.{name}"])


def test_a_resumed_run_averages_the_same(tmp_path):
    whole, stopped = ToyTask(), ToyTask()
    run(tmp_path / "whole", whole, steps=11, every=every(2))

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    run(tmp_path / "stopped", ToyTask(), steps=11, every=every(2, evaluate=7), evaluate=interrupt)
    assert [step_of(path) for path in checkpoints(tmp_path / "stopped")] == [6, 8]
    run(tmp_path / "stopped", stopped, steps=11, every=every(2, evaluate=7))
    for one, other in zip(whole.network.parameters(), stopped.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(BadConfig, match=r"every\.average 2 takes the last weights, metric 'f1' the best"):
        Settings(steps=1, every=every(2), metric="f1")
    with pytest.raises(BadConfig, match="the schedule noam needs a warmup"):
        Settings(steps=1, schedule="noam", warmup=0.0)
