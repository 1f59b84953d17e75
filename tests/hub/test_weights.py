"""Matrices stored as int8 with a scale for each row."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.hub.weights import SCALE, from_int8, to_int8


@given(st.integers(0, 2**31), st.floats(1e-6, 1e3))
def test_stored_matrices_are_off_by_at_most_half_a_step(seed, size):
    weight = torch.randn(16, 80, generator=torch.Generator().manual_seed(seed)) * size
    read = from_int8(to_int8({"w": weight, "bias": weight[0]}))
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((read["w"] - weight).abs() <= 0.5001 * step).all()
    assert torch.equal(read["bias"], weight[0])
    again = to_int8(read)
    assert torch.equal(again["w"], to_int8({"w": weight})["w"])  # nothing more is lost


def test_a_row_of_zeros_stays():
    read = from_int8(to_int8({"w": torch.zeros(40, 40)}))
    assert torch.equal(read["w"], torch.zeros(40, 40))
    assert set(to_int8({"w": torch.zeros(40, 40)})) == {"w", "w" + SCALE}
