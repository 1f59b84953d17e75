"""What is trained: a network, and the parts of its loss."""

from collections.abc import Mapping
from typing import Protocol

from torch import nn

from clearhead.data.batch import Batch
from clearhead.objectives.loss import Loss


class Task(Protocol):
    """Encoder, heads and objectives, put together by a recipe."""

    network: nn.Module
    weights: Mapping[str, float]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the items of each part, from the targets alone: a step's totals are known before its first pass."""

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the network and give one loss for each part."""
