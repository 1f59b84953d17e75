"""What an objective gives back: sums and counts, to be divided once, after all micro-batches and ranks are added."""

from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from clearhead.data.batch import IGNORE_INDEX

Count = Tensor | int


@dataclass(frozen=True)
class Loss:
    """A sum over items and how many there were; metrics likewise, each a (sum, count)."""

    total: Tensor
    count: Count
    metrics: dict[str, tuple[Tensor, Count]] = field(default_factory=dict)

    @property
    def mean(self) -> Tensor:
        """The loss per item."""
        return self.total / self.count


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    count: Count | None = None,
    *,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Loss:
    """Compare logits (N, L) with labels (N,), but for those that are IGNORE_INDEX; `count` is known if none is.

    `class_weights` (L,) multiply the loss of an item by its label; the count stays that of items, so that weights that
    are 1 on average leave the loss as large as it was.
    """
    count = count_targets(labels) if count is None else count
    total = F.cross_entropy(
        logits.float(),
        labels,
        weight=class_weights,
        ignore_index=IGNORE_INDEX,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
    return Loss(total, count, {"accuracy": ((logits.argmax(-1) == labels).sum(), count)})


def count_targets(labels: Tensor) -> Tensor:
    """How many labels are not IGNORE_INDEX."""
    return (labels != IGNORE_INDEX).sum()
