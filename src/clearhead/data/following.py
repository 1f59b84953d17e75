"""What a language model learns from plain text: the token after each, and the token before."""

# N packed tokens

from dataclasses import replace

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.data.source import Derived
from clearhead.nn.layout import Packed

NOTHING = -100  # beyond the ends of a sequence


class Following(Derived):
    """Another source's batches, with targets `next` (N,) and `previous` (N,): the neighbours in the same sequence."""

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        return with_neighbours(self.source.batch(index))


def with_neighbours(batch: Batch) -> Batch:
    """Add the targets `next` and `previous` to a batch."""
    targets = {"next": next_tokens(batch.ids, batch.layout), "previous": previous_tokens(batch.ids, batch.layout)}
    return replace(batch, targets={**batch.targets, **targets})


def next_tokens(ids: Tensor, layout: Packed) -> Tensor:
    """Give the token after each, (N,); after the last of a sequence there is none."""
    first = torch.cat((layout.positions == 0, layout.positions.new_ones(1, dtype=torch.bool)))
    return ids.roll(-1).masked_fill(first[1:], NOTHING)


def previous_tokens(ids: Tensor, layout: Packed) -> Tensor:
    """Give the token before each, (N,); before the first of a sequence there is none."""
    return ids.roll(1).masked_fill(layout.positions == 0, NOTHING)
