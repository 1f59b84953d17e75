"""One number for a sequence."""

# B sequences

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss


def regression(logits: Tensor, scores: Tensor) -> Loss:
    """Compare logits (B, 1) with scores (B,): squared error."""
    return Loss(F.mse_loss(logits.float().squeeze(-1), scores.float(), reduction="sum"), scores.shape[0])
