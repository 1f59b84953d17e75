"""Language model: which token comes next? Also which came before, and the next word of a translation."""

# N packed tokens · V vocabulary

import torch.nn.functional as F
from torch import Tensor

from clearhead.objectives.loss import Loss

IGNORE = -100  # where nothing follows, or where nothing is to be learnt, such as in a prompt


def causal_lm(logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Loss:
    """Compare logits (N, V) with the tokens that are to be written (N,), but for those that are IGNORE.

    The metric `nll` is the loss without smoothing: exp of its mean is the perplexity.
    """
    logits = logits.float()
    nll = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
    total = nll
    if label_smoothing:
        total = F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=label_smoothing, reduction="sum")
    count = (labels != IGNORE).sum()
    return Loss(total, count, {"nll": (nll, count), "accuracy": ((logits.argmax(-1) == labels).sum(), count)})
