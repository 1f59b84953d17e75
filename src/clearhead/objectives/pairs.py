"""Pairs of sentences: does the second follow (BERT), are the two in order (ALBERT)? 0 = yes, 1 = no for both."""

# B sequences, each a pair

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss


def sentence_pairs(logits: Tensor, labels: Tensor) -> Loss:
    """Compare logits (B, 2) with labels (B,): `next_sentence` or `sentence_order`; a text alone has -100."""
    total = F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")
    count = (labels >= 0).sum()
    return Loss(total, count, {"accuracy": ((logits.argmax(-1) == labels).sum(), count)})


def count_pairs(labels: Tensor) -> int:
    """How many of labels (B,) are of a pair."""
    return int((labels >= 0).sum())
