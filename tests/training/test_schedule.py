"""Learning rates, batch sizes, and how far a run has come."""

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.training.checkpoint import State
from clearhead.training.monitor import Report
from clearhead.training.schedule import DECAYS, Budget, ramp, schedule
from clearhead.training.settings import Every
from training.toy import ToySource, ToyTask, rows, run, settings

shares = st.floats(0, 0.99)


@pytest.mark.parametrize("name", DECAYS)
@given(progress=st.floats(0, 1), warmup=shares)
def test_between_0_and_1(name, progress, warmup):
    assert 0 <= schedule(name, progress, warmup) <= 1 + 1e-12


@pytest.mark.parametrize("name", DECAYS)
def test_up_to_1_and_down_to_0(name):
    ramped = name != "inverse_sqrt"  # which is at its full rate from the first step on
    assert schedule(name, 0.0, 0.1) == (0 if ramped else 1)
    assert schedule(name, 0.05, 0.1) == pytest.approx(0.5 if ramped else 1)
    assert schedule(name, 0.1, 0.1) == pytest.approx(1)
    assert schedule(name, 1.0, 0.1) == pytest.approx(
        {"noam": 0.1**0.5, "inverse_sqrt": 0.1**0.5, "constant": 1}.get(name, 0)
    )
    assert schedule(name, 0.0, 0.0) == 1
    downhill = [schedule(name, 0.1 + 0.9 * place / 20, 0.1) for place in range(21)]
    assert downhill == sorted(downhill, reverse=True)


def test_halfway():
    assert schedule("linear", 0.55, 0.1) == pytest.approx(0.5)
    assert schedule("cosine", 0.55, 0.1) == pytest.approx(0.5)
    assert schedule("trapezoidal", 0.55, 0.1) == 1
    assert schedule("trapezoidal", 0.9, 0.1) == pytest.approx(0.5)


def test_ramp():
    assert [ramp(progress, 0.5, 8) for progress in (0, 0.1, 0.25, 0.49, 0.5, 1)] == [1, 2, 4, 8, 8, 8]
    assert ramp(0.0, 0.0, 8) == 8


RARELY = {"accumulate": 1, "every": Every(log=2, save=40, evaluate=30)}


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_steps_and_epochs():
    steps = Budget(settings(steps=10), ToySource())
    assert [steps.progress(State(step=step)) for step in (0, 5, 9)] == [0.05, 0.55, 0.95]
    assert not steps.done(State(step=9))
    assert steps.done(State(step=10))
    epochs = Budget(settings(steps=None, epochs=2.5), ToySource(batches=10))
    assert epochs.progress(State(index=12)) == 0.5
    assert not epochs.done(State(index=24))
    assert epochs.done(State(index=25))


def test_epochs_end_with_a_smaller_step(tmp_path):
    task = ToyTask()
    result = run(tmp_path, task, ToySource(batches=10), steps=None, epochs=1)
    assert (result.step, task.passes) == (4, 10)  # 3 + 3 + 3 + 1
    assert rows(tmp_path)[-1]["epoch"] == 1.0


def test_batch_size_ramp(tmp_path):
    task = ToyTask()
    run(tmp_path, task, steps=10, accumulate=4, ramp=0.5)
    assert task.passes == 1 + 2 + 2 + 3 + 4 + 5 * 4


def test_minutes_end_on_time_and_the_rate_goes_down_to_nearly_nothing(tmp_path):
    clock = Clock()

    def take_time(passes, _batch):
        clock.now += 20.0 if passes == 1 else 1.0  # the first one compiles

    task = ToyTask(before=take_time)
    start = clock.now
    result = run(tmp_path, task, steps=None, minutes=2, clock=clock, learning_rate=1.0, warmup=0.2, **RARELY)
    assert 118 <= clock.now - start <= 120
    assert result.exit == "finished"
    assert result.elapsed == clock.now - start
    rates = [row["learning_rate"] for row in rows(tmp_path)]
    assert rates[0] < 0.2  # compiling has not used up the warm-up
    assert max(rates) > 0.9
    assert rates[-1] < 0.03


def test_evaluation_and_saving_are_within_the_minutes(tmp_path):
    clock = Clock()

    def take_time(_passes, _batch):
        clock.now += 1.0

    def evaluate():
        clock.now += 7.0
        return {"f1": 1.0}

    start = clock.now
    run(tmp_path, ToyTask(before=take_time), steps=None, minutes=2, clock=clock, evaluate=evaluate, **RARELY)
    assert 110 <= clock.now - start <= 120


def test_a_resumed_run_goes_on_with_its_minutes(tmp_path):
    clock = Clock()

    def take_time(_passes, _batch):
        clock.now += 2.0
        if clock.now == 1040.0:
            raise KeyError

    task = ToyTask(before=take_time)
    with pytest.raises(KeyError):
        run(tmp_path, task, steps=None, minutes=1, accumulate=1, clock=clock)
    clock.now = 5000.0
    result = run(tmp_path, task, steps=None, minutes=1, accumulate=1, clock=clock)
    assert result.step == 30
    assert clock.now == 5000.0 + 60 - 36  # the last checkpoint before the error was at step 18


def test_a_run_that_is_stopped_when_its_minutes_are_nearly_over_is_evaluated_all_the_same(tmp_path):
    clock = Clock()

    def take_time(passes, _batch):
        clock.now += 10.0
        if passes == 6:
            os.kill(os.getpid(), signal.SIGINT)

    class Slow(Report):
        def log(self, row):
            clock.now += 4.5
            super().log(row)

    options = {"steps": None, "minutes": 1.4, "clock": clock, "evaluate": lambda: {"f1": 1.0}, **RARELY}
    stopped = run(tmp_path, ToyTask(before=take_time), report=Slow(tmp_path), **options)
    assert (stopped.exit, stopped.step) == ("interrupted", 6)
    task = ToyTask(before=take_time)
    for _ in range(2):
        result = run(tmp_path, task, **options)
        assert (result.exit, result.step, task.passes) == ("finished", 6, 0)
        assert [row["evaluation/f1"] for row in rows(tmp_path) if "evaluation/f1" in row] == [1.0]
