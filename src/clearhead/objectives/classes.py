"""Classes of a sequence: one of several, or any number of them."""

# B sequences · L labels

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss


def one_class(
    logits: Tensor, classes: Tensor, *, class_weights: Tensor | None = None, label_smoothing: float = 0.0
) -> Loss:
    """Compare logits (B, L) with classes (B,); `class_weights` (L,) multiply the loss of a sequence by its class.

    The count stays the number of sequences: weights that are 1 on average leave the loss as large as it was.
    """
    total = F.cross_entropy(
        logits.float(), classes, weight=class_weights, label_smoothing=label_smoothing, reduction="sum"
    )
    count = classes.shape[0]
    return Loss(total, count, {"accuracy": ((logits.argmax(-1) == classes).sum(), count)})


def many_classes(logits: Tensor, classes: Tensor) -> Loss:
    """Compare logits (B, L) with multi-hot classes (B, L): L questions with yes or no for each sequence."""
    total = F.binary_cross_entropy_with_logits(logits.float(), classes.float(), reduction="sum")
    count = classes.numel()
    return Loss(total, count, {"accuracy": (((logits > 0) == classes.bool()).sum(), count)})
