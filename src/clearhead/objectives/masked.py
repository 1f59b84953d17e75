"""Masked language model (Devlin et al. 2018, section 3.1): which token stood here?"""

# M masked tokens · V vocabulary

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss


def masked_lm(logits: Tensor, labels: Tensor) -> Loss:
    """Compare logits (M, V) at the masked places alone with the true ids (M,); nothing is ignored."""
    total = F.cross_entropy(logits.float(), labels, reduction="sum")
    count = labels.shape[0]
    return Loss(total, count, {"accuracy": ((logits.argmax(-1) == labels).sum(), count)})
