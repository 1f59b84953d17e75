"""Softmax within groups of unequal size that lie end to end, without padding."""

# N items of all groups together · G groups · C columns

import torch
from torch import Tensor


def owners(sizes: Tensor, items: int) -> Tensor:
    """Tell which group each item belongs to: sizes (G,) -> (N,); `items` is their sum, known without a transfer."""
    return torch.repeat_interleave(sizes.long(), output_size=items)


def group_max(x: Tensor, owner: Tensor, groups: int) -> Tensor:
    """Take the largest value of each column in each group: (N, C) -> (G, C)."""
    lowest = x.new_full((groups, x.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, owner.unsqueeze(-1).expand_as(x), x, "amax")


def group_log_softmax(x: Tensor, owner: Tensor, groups: int) -> Tensor:
    """Take the log-softmax of each column over each group's own items: (N, C) -> (N, C)."""
    shifted = x - group_max(x.detach(), owner, groups)[owner]
    sums = x.new_zeros(groups, x.shape[1]).index_add(0, owner, shifted.exp())
    return shifted - sums.log()[owner]
