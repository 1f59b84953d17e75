"""Raffel et al. 2019: a learned number for each head and distance, added to the scores of attention."""

# B batch · T queries · S keys · H heads

from math import log

import torch
from torch import Tensor, nn

from clearhead.nn.cache import Cache
from clearhead.nn.layout import Layout, Packed


class RelativeBias(nn.Module):
    """Near distances have a bucket each, far ones share buckets that widen; all layers use the same table."""

    def __init__(self, buckets: int, farthest: int, heads: int, *, both_sides: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.farthest = farthest
        self.both_sides = both_sides

    def forward(self, layout: Layout, cache: Cache | None = None) -> Tensor:
        """The bias for `attend`: (H, T, S) for the longest rows, or (B, H, T, S) where padding may lie anywhere.

        With a cache that holds more than the layout, the last token looks at all of its columns.
        """
        if cache is not None and not isinstance(layout, Packed):
            place = torch.arange(cache.longest, device=layout.positions.device)  # the rows end in the last column
            distance = place[None, :] - place[-1]
        elif isinstance(layout, Packed) or layout.complete:
            place = torch.arange(layout.max_length, device=layout.positions.device)
            distance = place[None, :] - place[:, None]
        else:
            distance = layout.positions[:, None, :] - layout.positions[:, :, None]  # (B, T, S)
        bias: Tensor = self.table(self.bucket(distance)).movedim(-1, -3)
        return bias

    def bucket(self, distance: Tensor) -> Tensor:
        """Number the bucket of each distance, key minus query."""
        buckets = self.table.num_embeddings
        first = torch.zeros_like(distance)
        if self.both_sides:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        steps = (distance.clamp(min=1).float() / exact).log() / log(self.farthest / exact) * (buckets - exact)
        far = (exact + steps.long()).clamp(max=buckets - 1)
        return first + distance.where(distance < exact, far)
