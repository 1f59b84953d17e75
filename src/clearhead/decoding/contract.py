"""What a model must do to be decoded: begin, then step. Every decoder of the project, recurrent or not, does both."""

# B batch · V vocabulary

from collections.abc import Sequence
from typing import Any, Protocol, Self

from torch import Tensor


class State(Protocol):
    """What a model remembers between two steps, such as a key–value cache: one row for every running sequence."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of these rows (int64), in this order, repeated or left out: beams move, the finished leave.

        The old state must not be used afterwards: the new one may share its memory.
        """


class Continues(Protocol):
    """A model that writes on. A decoder-only model begins with prompts, an encoder–decoder with sources."""

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """Read the prompts or sources: logits (B, V) of the first new token, and the `State` to go on from."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token (B,) to every sequence: logits (B, V) of the token after it, and the new `State`."""
