"""LSTM and GRU over packed and padded layouts, by torch's own kernels (cuDNN on a GPU).

Packed tokens are sequence-major, the kernels want them time-major: all first tokens, then all second ones.
"""

# B batch · N packed tokens · T longest sequence · D width · I inner width · L layers × directions

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from clearhead.nn.layout import Layout, Packed, Padded

States = tuple[Tensor, ...]  # of an LSTM (hidden, cell), of a GRU (hidden,); each (L, B, I)


@dataclass(frozen=True)
class DecodingState:
    """What a recurrent decoder keeps between two steps."""

    states: States
    memory: Any = None  # of the source, for a decoder that has one; see clearhead.nn.alignment

    def select(self, rows: Tensor) -> Self:
        """Take these rows, in this order."""
        memory = None if self.memory is None else self.memory.select(rows)
        return type(self)(tuple(state[:, rows] for state in self.states), memory)


class RecurrentLayers(nn.Module):
    """Any layers of LSTM or GRU, in one direction or both: `RecurrentLayers(nn.LSTM(D, I, num_layers=2))`."""

    def __init__(self, core: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.core = core

    def forward(self, x: Tensor, layout: Layout, start: States | None = None) -> tuple[Tensor, States]:
        """(…, D) in either layout -> (…, I × directions), and the states after each sequence's last token.

        An empty sequence ends in the states it started with, zeros if none were given.
        """
        if isinstance(layout, Padded):
            packed, inner = layout.pack(x)
            read, states = self(packed, inner, start)
            return x.new_zeros(*x.shape[:2], read.shape[-1]).masked_scatter(layout.keep.unsqueeze(-1), read), states
        width, directions = self.core.hidden_size, 2 if self.core.bidirectional else 1
        if start is None:
            zeros = x.new_zeros(self.core.num_layers * directions, layout.batch, width)
            start = (zeros, zeros) if isinstance(self.core, nn.LSTM) else (zeros,)
        if not x.shape[0]:
            return x.new_zeros(0, width * directions), start
        places, back, rows, sizes = _time_major(layout)
        begin = tuple(state.index_select(1, rows) for state in start)
        read, end = self._run(PackedSequence(x[places], sizes), begin)
        ended = (old.index_copy(1, rows, new.to(old.dtype)) for old, new in zip(start, end, strict=True))
        return read.data[back], tuple(ended)

    def step(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        """One token of each sequence: (B, D) and the states before it -> (B, I) and the states after it."""
        read, states = self._run(x.unsqueeze(0), states)
        return read.squeeze(0), states

    def _run(self, x: PackedSequence | Tensor, states: States) -> tuple[Any, States]:
        # under autocast cuDNN takes float16 whatever was asked for, in which small gradients vanish
        weight = self.core.get_parameter("weight_hh_l0")
        x, states = x.to(weight.dtype), tuple(state.to(weight.dtype) for state in states)
        with torch.autocast(weight.device.type, enabled=False):
            if isinstance(self.core, nn.LSTM):
                return self.core(x, states)
            read, state = self.core(x, *states)
            return read, (state,)


def _time_major(layout: Packed) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How packed tokens become torch's PackedSequence: longest sequence first, time-major, empty ones left out.

    The token at each place (N,), the place of each token (N,), the sequences that are not empty, and how many of them
    have a token at each time (T,), which torch wants on the CPU.
    """
    lengths = np.array(layout.lengths, dtype=np.int64)  # on the host, from the lengths alone
    ranked = np.argsort(-lengths, kind="stable")
    times = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = np.lexsort((np.repeat(np.argsort(ranked), lengths), times))
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    indices = order, inverse, ranked[: np.count_nonzero(lengths)]
    places, back, rows = (torch.from_numpy(index).to(layout.offsets.device, non_blocking=True) for index in indices)
    return places, back, rows, torch.from_numpy(np.bincount(times))


def joined_directions(states: States) -> States:
    """Put the two directions of each layer side by side: (2 L, B, I) -> (L, B, 2 I), forward first."""
    return tuple(torch.cat((state[0::2], state[1::2]), -1) for state in states)


def reversed_places(layout: Packed) -> Tensor:
    """Where each token lies when every sequence is read from its end: (N,); applied twice, nothing has changed."""
    lengths = layout.offsets.diff()
    ends = torch.repeat_interleave(layout.offsets[1:], lengths, output_size=layout.positions.shape[0])
    return ends.long() - 1 - layout.positions
