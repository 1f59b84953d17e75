"""Positions: two sinusoidal tables, learned ones, and rotary positions."""

# T positions · D width · H heads · K head width

import math

import torch
from torch import Tensor, nn

from clearhead.errors import require

_LARGEST = 2**26  # numbers of a table: far above any model, and 256 MB


def sinusoidal_interleaved(length: int, width: int) -> Tensor:
    """Vaswani et al. 2017: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the same: (T, D)."""
    require(width % 2 == 0, f"sinusoidal positions need an even width, got {width}")
    _check_size(length, width)
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def sinusoidal_split(length: int, width: int) -> Tensor:
    """The layout of many implementations: all sines, then all cosines, frequencies from 1 to 1/10000: (T, D)."""
    require(width % 2 == 0, f"sinusoidal positions need an even width, got {width}")
    _check_size(length, width)
    # the rates as fairseq rounds them, whose models have learnt from this very table
    rates = torch.exp(torch.arange(width // 2) * -(math.log(10000) / max(width // 2 - 1, 1)))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


class SinusoidalPositions(nn.Module):
    """The angles of the 2017 paper as a fixed table, all sines first, then all cosines, as Marian lays them out.

    With `first`, the table of `sinusoidal_split` from this row on, as M2M-100 reads it.
    """

    def __init__(self, length: int, width: int, *, first: int | None = None) -> None:
        super().__init__()
        with torch.device(_table_device()):
            if first is None:
                paired = sinusoidal_interleaved(length, width)
                table = torch.cat([paired[:, 0::2], paired[:, 1::2]], -1)
            else:
                table = sinusoidal_split(length + first, width)[first:]
        self.table: Tensor
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Positions (…) -> (…, D)."""
        return self.table[positions]


class LearnedPositions(nn.Embedding):
    """A learned vector for each position; the `first` rows of the table stand for none and are never read (BART)."""

    def __init__(self, length: int, width: int, *, first: int) -> None:
        super().__init__(length + first, width)
        self.first = first

    def forward(self, positions: Tensor) -> Tensor:
        """Positions (…) -> (…, D)."""
        return super().forward(positions + self.first)


class Rotary(nn.Module):
    """Su et al. 2021: rotate each pair of features by an angle that grows with the position.

    The score of a query and a key then depends on their distance alone.
    """

    def __init__(self, head_width: int, theta: float, length: int) -> None:
        super().__init__()
        require(head_width % 2 == 0, f"rotary positions need an even head width, got {head_width}")
        _check_size(length, head_width)
        device = _table_device()
        frequencies = 1 / theta ** (torch.arange(0, head_width, 2, device=device) / head_width)
        angles = torch.arange(length, device=device)[:, None] * frequencies  # (T, K/2)
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", angles.cos().repeat(1, 2), persistent=False)
        # the minus of (a, b) -> (-b, a) is in the table
        self.register_buffer("sin", torch.cat([-angles.sin(), angles.sin()], -1), persistent=False)

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys (…, H, K) at positions (…)."""
        cos, sin = (table[positions].unsqueeze(-2).to(q.dtype) for table in (self.cos, self.sin))  # (…, 1, K)
        return q * cos + _partners(q) * sin, k * cos + _partners(k) * sin

    def rotate_(self, x: Tensor) -> None:
        """Rotate queries or keys (…, T, H, K) in place, rows that begin at position 0; not for training."""
        partners, length = _partners(x), x.shape[-3]
        x.mul_(self.cos[:length, None]).addcmul_(partners, self.sin[:length, None])


def _check_size(length: int, width: int) -> None:
    """Refuse a table that a damaged configuration asks for: no file holds it, so that no file would contradict."""
    fits = length * width <= _LARGEST
    require(fits, f"positions for {length} tokens of width {width} are too many; lower the number of positions")


def _table_device() -> torch.device:
    """The device a table is made on: no checkpoint holds it, so that it has to be real in a "meta" model."""
    device = torch.get_default_device()
    return torch.device("cpu") if device.type == "meta" else device


def _partners(x: Tensor) -> Tensor:
    """Feature i pairs with feature i + K/2: (a, b) -> (b, a)."""
    return x.roll(x.shape[-1] // 2, -1)
