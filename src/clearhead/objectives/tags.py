"""One tag for each token that has one."""

# N packed tokens · L labels

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss

IGNORE = -100  # special tokens, and the pieces of a word after its first


def token_tags(
    logits: Tensor, tags: Tensor, *, class_weights: Tensor | None = None, label_smoothing: float = 0.0
) -> Loss:
    """Compare logits (N, L) with tags (N,); `class_weights` (L,) multiply the loss of a token by its tag.

    The count stays the number of tagged tokens: weights that are 1 on average leave the loss as large as it was.
    """
    total = F.cross_entropy(
        logits.float(),
        tags,
        weight=class_weights,
        ignore_index=IGNORE,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
    count = (tags != IGNORE).sum()
    return Loss(total, count, {"accuracy": ((logits.argmax(-1) == tags).sum(), count)})
