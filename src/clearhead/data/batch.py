"""What a model trains on: packed ids, where the sequences lie, and what is to be learnt from them."""

# B sequences · N packed tokens

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from clearhead.nn.layout import Packed


@dataclass(frozen=True)
class Batch:
    """Packed sequences and the targets of an objective, by name.

    Where a sequence is written from another, `source` holds those others, one for each, in the same order.
    """

    ids: Tensor  # (N,)
    layout: Packed
    segments: Tensor | None = None  # (N,)
    targets: dict[str, Tensor] = field(default_factory=dict)
    source: Self | None = None

    @classmethod
    def of(
        cls,
        sequences: Sequence[Sequence[int]],
        segments: Sequence[Sequence[int]] | None = None,
        targets: Mapping[str, Tensor] | None = None,
    ) -> Self:
        """Pack sequences of ids, and their segments, end to end."""
        return cls(
            torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.int64),
            Packed.of([len(sequence) for sequence in sequences]),
            None if segments is None else torch.tensor([s for sequence in segments for s in sequence]),
            dict(targets or {}),
        )

    @property
    def tokens(self) -> int:
        """How many tokens there are, without those of the source."""
        return self.ids.shape[0]

    def twice(self) -> Self:
        """Every sequence, and all of them once more, with their sources; targets by name are not repeated."""
        source = None if self.source is None else self.source.twice()
        segments = None if self.segments is None else self.segments.repeat(2)
        return replace(
            self, ids=self.ids.repeat(2), layout=self.layout.twice(), segments=segments, targets={}, source=source
        )

    def to(self, device: torch.device | str) -> Self:
        """Move everything to a device, without waiting for it."""
        layout = replace(
            self.layout,
            offsets=self.layout.offsets.to(device, non_blocking=True),
            positions=self.layout.positions.to(device, non_blocking=True),
        )
        return replace(
            self,
            ids=self.ids.to(device, non_blocking=True),
            layout=layout,
            segments=None if self.segments is None else self.segments.to(device, non_blocking=True),
            targets={name: target.to(device, non_blocking=True) for name, target in self.targets.items()},
            source=None if self.source is None else self.source.to(device),
        )
