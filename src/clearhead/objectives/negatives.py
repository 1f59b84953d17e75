"""Negative sampling (Mikolov et al. 2013): tell the word that stood there from some that did not."""

# M places · K words drawn at random

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss


def negative_sampling(logits: Tensor, candidates: Tensor) -> Loss:
    """Compare logits (M, 1 + K) of candidates (M, 1 + K), the true word first: it is likely, the others are not.

    A word that was drawn by chance although it is the true one teaches nothing.
    """
    logits = logits.float()
    right = F.softplus(-logits[:, 0])
    wrong = F.softplus(logits[:, 1:]).masked_fill(candidates[:, 1:] == candidates[:, :1], 0.0)
    count = candidates.shape[0]
    best = (logits[:, :1] >= logits[:, 1:]).all(-1).sum()
    return Loss(right.sum() + wrong.sum(), count, {"accuracy": (best, count)})
