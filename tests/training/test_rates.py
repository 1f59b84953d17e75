"""The sweep of learning rates finds where a loss falls, and leaves the network as it was."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

from clearhead.training.rates import HIGH, LOW, STEPS, RateSweep, steepest, sweep_learning_rates
from training.toy import ToySource, ToyTask, settings


def weights(task):
    return {name: tensor.clone() for name, tensor in task.network.state_dict().items()}


def test_a_sweep_finds_a_rate_that_learns_and_changes_nothing():
    task, told = ToyTask(), []
    before = weights(task)
    found = sweep_learning_rates(task, ToySource(), settings(accumulate=2), progress=told.append)
    assert all(torch.equal(tensor, before[name]) for name, tensor in task.network.state_dict().items())
    assert all(weight.grad is None for weight in task.network.parameters())
    assert not task.network.training
    assert found.rates[0] == LOW
    assert found.rates[-1] <= HIGH * 1.001
    assert len(found.rates) == len(found.losses) == sum(told)
    assert found.suggestion is not None
    assert 1e-5 < found.suggestion < 1e-1
    assert found.losses[found.rates.index(found.suggestion)] > min(found.losses)
    again = sweep_learning_rates(task, ToySource(), settings(accumulate=2))
    assert again == found


def test_a_sweep_ends_where_the_loss_diverges():
    task = ToyTask()

    def explode(passes, _batch):
        task.factor = 1.0 if passes < 40 else 1e4

    task.before = explode
    assert len(sweep_learning_rates(task, ToySource(), settings(accumulate=1)).rates) < 60
    task = ToyTask()
    task.before = lambda passes, _batch: setattr(task, "factor", 1.0 if passes < 40 else float("nan"))
    found = sweep_learning_rates(task, ToySource(), settings(accumulate=1))
    assert len(found.rates) == 39
    assert all(np.isfinite(found.losses))


def test_the_steepest_place_is_before_the_lowest_loss():
    rates = np.geomspace(LOW, HIGH, STEPS).tolist()
    place = np.linspace(-10, 10, STEPS)
    falling = (1 / (1 + np.exp(place))).tolist()  # steepest in the middle
    assert steepest(rates, falling) == pytest.approx(rates[STEPS // 2], rel=0.2)
    bump = falling[:70] + [5.0] + [0.1] * 29  # what follows a spike is a recovery, and no learning
    assert steepest(rates, bump) == pytest.approx(rates[STEPS // 2], rel=0.2)
    assert steepest(rates, [1.0] * STEPS) is None
    assert steepest(rates, np.linspace(1, 2, STEPS).tolist()) is None
    assert steepest(rates[:5], [5.0, 4.0, 3.0, 2.0, 1.0]) is None  # too few to tell


def test_the_picture_is_whole_and_marks_the_rate():
    sweep = RateSweep(rates=(1e-6, 1e-4, 1e-2), losses=(1.0, 0.5, 2.0), suggestion=1e-4)
    picture = sweep.picture()
    ElementTree.fromstring(picture)
    assert ">1.0e-04<" in picture
    assert "#d1495b" not in RateSweep(rates=(1e-6,), losses=(1.0,), suggestion=None).picture()
