"""Answer spans (Devlin et al. 2018, section 4.2): at which token does the answer start, at which does it end?"""

# B sequences · N packed tokens

import torch
from torch import Tensor

from clearhead.nn.layout import Packed
from clearhead.objectives.loss import Loss
from clearhead.objectives.segments import group_log_softmax, group_max, owners


def answer_span(logits: Tensor, layout: Packed, starts: Tensor, ends: Tensor) -> Loss:
    """Compare logits (N, 2) with positions (B,) in each sequence: a softmax over its own tokens, for start and end.

    A sequence whose start or end lies outside it is ignored. The loss is the mean of the two.
    """
    owner = owners(layout.offsets.diff(), logits.shape[0])
    log_chances = group_log_softmax(logits.float(), owner, layout.batch)  # (N, 2)
    inside = answerable(layout, starts, ends).unsqueeze(-1)  # (B, 1)
    places = layout.offsets[:-1].unsqueeze(-1) + torch.stack([starts, ends], -1)  # (B, 2)
    # a place that is ignored may lie anywhere; any token will do for it
    chosen = log_chances.gather(0, places.where(inside, 0)).where(inside, 0.0)
    right = (chosen >= group_max(log_chances.detach(), owner, layout.batch)) & inside
    count = inside.sum()
    return Loss(-chosen.sum() / 2, count, {"accuracy": (right.all(-1).sum(), count)})


def answerable(layout: Packed, starts: Tensor, ends: Tensor) -> Tensor:
    """Tell which sequences hold both their start and their end: (B,) bool."""
    lengths = layout.offsets.diff()
    return (starts >= 0) & (starts < lengths) & (ends >= 0) & (ends < lengths)
