"""Pairs of sentences: does the second follow (BERT), are the two in order (ALBERT)? 0 = yes, 1 = no for both."""

# B sequences, each a pair

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss


def sentence_pairs(logits: Tensor, labels: Tensor) -> Loss:
    """Compare logits (B, 2) with labels (B,): `next_sentence` or `sentence_order` of the batch; nothing is ignored."""
    total = F.cross_entropy(logits.float(), labels, reduction="sum")
    count = labels.shape[0]
    return Loss(total, count, {"accuracy": ((logits.argmax(-1) == labels).sum(), count)})
