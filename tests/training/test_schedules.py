import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.training.schedule import SCHEDULES, ramp, trapezoidal

shares = st.floats(0, 0.99)


@pytest.mark.parametrize("name", SCHEDULES)
@given(progress=st.floats(0, 1), warmup=shares)
def test_between_0_and_1(name, progress, warmup):
    assert 0 <= SCHEDULES[name](progress, warmup) <= 1 + 1e-12


@pytest.mark.parametrize("name", SCHEDULES)
def test_up_to_1_and_down_to_0(name):
    schedule = SCHEDULES[name]
    assert schedule(0.0, 0.1) == 0
    assert schedule(0.05, 0.1) == pytest.approx(0.5)
    assert schedule(0.1, 0.1) == pytest.approx(1)
    assert schedule(1.0, 0.1) == pytest.approx({"noam": 0.1**0.5, "constant": 1}.get(name, 0))
    assert schedule(0.0, 0.0) == 1
    downhill = [schedule(0.1 + 0.9 * place / 20, 0.1) for place in range(21)]
    assert downhill == sorted(downhill, reverse=True)


def test_halfway():
    assert SCHEDULES["linear"](0.55, 0.1) == pytest.approx(0.5)
    assert SCHEDULES["cosine"](0.55, 0.1) == pytest.approx(0.5)
    assert trapezoidal(0.55, 0.1) == 1
    assert trapezoidal(0.9, 0.1) == pytest.approx(0.5)


def test_ramp():
    assert [ramp(progress, 0.5, 8) for progress in (0, 0.1, 0.25, 0.49, 0.5, 1)] == [1, 2, 4, 8, 8, 8]
    assert ramp(0.0, 0.0, 8) == 8
