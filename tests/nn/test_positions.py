import math

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadConfig
from clearhead.nn.positions import Rotary, sinusoidal_interleaved, sinusoidal_split


def test_the_papers_formula():
    table = sinusoidal_interleaved(50, 16)
    for pos in (0, 1, 49):
        for i in range(8):
            angle = pos / 10000 ** (2 * i / 16)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_the_lectures_picture():
    """Sines first, then cosines, as deck 000 prints them for width 4."""
    printed = [[0, 0, 1, 1], [0.84, 0.0001, 0.54, 1], [0.91, 0.0002, -0.42, 1]]
    assert_close(sinusoidal_split(3, 4), torch.tensor(printed), atol=5e-3, rtol=0)
    assert_close(sinusoidal_split(3, 4)[:, 1], torch.tensor([0, 0.0001, 0.0002]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("make", [sinusoidal_interleaved, sinusoidal_split, lambda n, width: Rotary(width, 10000, n)])
def test_odd_widths_are_refused(make):
    with pytest.raises(BadConfig, match="got 5"):
        make(3, 5)


def test_rotary_matches_depend_on_the_distance_alone():
    rotary = Rotary(8, theta=10000, length=64)
    q, k = torch.randn(1, 1, 8), torch.randn(1, 1, 8)

    def match(i: int, j: int) -> torch.Tensor:
        turned_q, _ = rotary(q, k, torch.tensor([i]))
        _, turned_k = rotary(q, k, torch.tensor([j]))
        return turned_q.flatten() @ turned_k.flatten()

    assert_close(match(3, 10), match(40, 47), atol=1e-5, rtol=1e-5)
    assert not torch.isclose(match(3, 10), match(3, 20))
    assert_close(match(0, 0), q.flatten() @ k.flatten())


def test_turning_in_place_is_turning():
    rotary = Rotary(8, theta=10000, length=64)
    x = torch.randn(2, 5, 3, 8)  # rows, positions, heads, width
    turned, _ = rotary(x, x, torch.arange(5).expand(2, 5))
    rotary.rotate_(x)
    assert_close(x, turned)
