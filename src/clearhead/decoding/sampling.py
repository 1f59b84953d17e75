"""Chance: which tokens may be drawn, and with which probability."""

# B rows · V vocabulary

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from clearhead.decoding.checks import check_number, check_whole
from clearhead.errors import BadInput, require


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to draw: hotter is wilder, `top_k` and `top_p` cut the unlikely off (0 and 1 cut nothing)."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature)
        require(
            self.temperature > 0,
            f"temperature must be more than 0, got {self.temperature}; leave it out for the likeliest token each time",
            BadInput,
        )
        check_whole("top_k", self.top_k)
        check_number("top_p", self.top_p)
        require(0 < self.top_p <= 1, f"top_p must be more than 0 and at most 1, got {self.top_p}", BadInput)

    def chances(self, logits: Tensor) -> Tensor:
        """Logits (B, V) -> the probabilities to draw by."""
        logits = logits.float() / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        chances = logits.softmax(-1)
        if self.top_p < 1:
            ordered, places = chances.sort(descending=True)
            before = ordered.cumsum(-1) - ordered  # how much is likelier; the first always stays
            chances = chances.scatter(1, places, ordered.masked_fill(before >= self.top_p, 0.0))
            chances = chances / chances.sum(-1, keepdim=True)
        return chances

    def draw(self, logits: Tensor, chance: Sequence[Random]) -> Tensor:
        """Draw one token for each row, each by its own chance, so that company changes nothing: logits (B, V) -> (B,).

        It is the token at which the probabilities add up to a share that is drawn; one without probability never is.
        """
        reached = self.chances(logits).double().cumsum(-1)
        shares = torch.tensor([[1 - one.random()] for one in chance], dtype=torch.float64, device=logits.device)
        allowed = bool(reached[:, -1].isfinite().all())
        require(allowed, "the rules leave no token to be written; forbid less", BadInput)
        return torch.searchsorted(reached, shares * reached[:, -1:])[:, 0]
