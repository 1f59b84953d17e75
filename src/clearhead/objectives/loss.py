"""What an objective gives back: sums and counts, to be divided once, after all micro-batches and ranks are added."""

from dataclasses import dataclass, field

from torch import Tensor

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
