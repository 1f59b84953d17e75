"""The context of a recurrent decoder: one vector for all words, or another one for each word by attention.

The three scores of the lectures: dot s·h (Luong et al. 2015), general s·W h (there too), additive v·tanh(W s + U h)
(Bahdanau et al. 2015). A context is used in two steps, `memory` once for each source, then any number of calls.
"""

# B batch · T words of the target · S words of the source · D width

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from clearhead.nn.layout import Packed


@dataclass(frozen=True)
class Memory:
    """What a decoder attends to: the encoder's hidden states and the keys made of them."""

    hidden: Tensor  # (B, S, D)
    keys: Tensor  # (B, S, D) what the decoder's states are scored against
    keep: Tensor  # (B, S) True at real words

    def select(self, rows: Tensor) -> Self:
        """Take these rows, in this order."""
        return replace(self, hidden=self.hidden[rows], keys=self.keys[rows], keep=self.keep[rows])


class DotScore(nn.Module):
    """s·h: no parameters."""

    def keys(self, hidden: Tensor) -> Tensor:
        """The hidden states themselves."""
        return hidden

    def forward(self, states: Tensor, keys: Tensor) -> Tensor:
        """(B, T, D) and (B, S, D) -> (B, T, S)."""
        return states @ keys.mT


class GeneralScore(DotScore):
    """s·W h: bilinear."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, width, bias=False)

    def keys(self, hidden: Tensor) -> Tensor:
        """W h."""
        return self.map(hidden)


class AdditiveScore(nn.Module):
    """v·tanh(W s + U h): a network with one hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_state = nn.Linear(width, width, bias=False)
        self.of_hidden = nn.Linear(width, width)
        self.sum = nn.Linear(width, 1, bias=False)

    def keys(self, hidden: Tensor) -> Tensor:
        """U h."""
        return self.of_hidden(hidden)

    def forward(self, states: Tensor, keys: Tensor) -> Tensor:
        """(B, T, D) and (B, S, D) -> (B, T, S)."""
        return self.sum(torch.tanh(self.of_state(states).unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)


class Align(nn.Module):
    """Scores to attention weights: a module without parameters, so that a hook sees every attention matrix."""

    def forward(self, scores: Tensor, keep: Tensor) -> Tensor:
        """(B, T, S) and (B, S) -> weights (B, T, S); a row sums to 1, on real words alone."""
        return scores.masked_fill(~keep.unsqueeze(1), torch.finfo(scores.dtype).min).softmax(-1)


class AttentionContext(nn.Module):
    """Another context for every word: c_t = Σ α_i h_i, where α is the softmax of the scores of the decoder's state."""

    def __init__(self, score: DotScore | AdditiveScore) -> None:
        super().__init__()
        self.score = score
        self.align = Align()

    def memory(self, hidden: Tensor, layout: Packed, last: Tensor) -> Memory:
        """Keep the whole source: hidden states (N, D), packed; `last` (B, D) is the last state."""
        padded, rectangle = layout.pad(hidden)
        return Memory(padded, self.score.keys(padded), rectangle.keep)

    def forward(self, states: Tensor, memory: Memory) -> Tensor:
        """States (B, T, D) -> contexts (B, T, D)."""
        return self.align(self.score(states, memory.keys), memory.keep) @ memory.hidden


class FixedContext(nn.Module):
    """The same context for every word: the encoder's last state."""

    def memory(self, hidden: Tensor, layout: Packed, last: Tensor) -> Memory:
        """Keep one vector, `last` (B, D): the last state of each direction."""
        one = last.unsqueeze(1)  # (B, 1, D)
        return Memory(one, one, torch.ones(one.shape[:2], dtype=torch.bool, device=one.device))

    def forward(self, states: Tensor, memory: Memory) -> Tensor:
        """States (B, T, D) -> contexts (B, T, D)."""
        return memory.hidden.expand_as(states)
