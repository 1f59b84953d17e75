"""Transformer-XL's memory (Dai et al. 2019): what every layer was given of the segments before the one that is read."""

# B rows, whose segments follow one another · M remembered tokens · T tokens of a segment · D width

import torch
from torch import Tensor

from clearhead.errors import BadInput, require


class Memory:
    """The last tokens of each row, at most `length`, as each layer was given them: (B, M, D); M grows from 0.

    Gradients end here. All rows remember as many, so that segments are as long in every row, but for its last.
    """

    def __init__(self, length: int) -> None:
        require(length >= 1, f"a memory of {length} tokens remembers nothing; give 1 or more, or none", BadInput)
        self.length = length
        self._layers: list[Tensor] = []

    @property
    def tokens(self) -> int:
        """How many tokens each row remembers, M."""
        return self._layers[0].shape[1] if self._layers else 0

    def before(self, layer: int) -> Tensor | None:
        """What a layer attends to besides, (B, M, D); None before the first segment."""
        return self._layers[layer] if self._layers else None

    def remember(self, states: list[Tensor]) -> None:
        """Take in what each layer was given of a segment, (B, T, D); what is too old is forgotten."""
        states = [state.detach() for state in states]
        before = self._layers or [state[:, :0] for state in states]
        both = (torch.cat(pair, 1) for pair in zip(before, states, strict=True))
        self._layers = [one[:, -self.length :] for one in both]

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order: those whose text goes on."""
        self._layers = [layer[rows] for layer in self._layers]
