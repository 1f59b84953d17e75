"""MiniLM-v2 (Wang et al. 2021): a student's tokens relate to one another as its teacher's do, whatever the widths.

A relation is self-attention among the queries (or keys, or values) of one layer, over heads cut anew for this purpose.
"""

# N packed tokens · R sequences in a run · A relation heads · T length

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.nn.attention import scaled_scores
from clearhead.nn.layout import Packed
from clearhead.objectives.loss import Loss


def relations(student: Tensor, teacher: Tensor, layout: Packed, relation_heads: int) -> Loss:
    """Compare two packed sets of vectors, (N, …) each: KL(teacher || student) of every token's relation to the others.

    One item is one token; its loss is the mean over the relation heads.
    """
    for who, x in (("student", student), ("teacher", teacher)):
        width = x.flatten(1).shape[1]
        fits = width % relation_heads == 0
        require(fits, f"{relation_heads} relation heads do not divide the {who}'s width {width}", BadInput)
    total = torch.zeros((), device=student.device)
    with torch.autocast(student.device.type, enabled=False):  # which would make the products half precision
        for start, count, length in layout.runs:
            run = slice(start, start + count * length)
            ours, theirs = (_log_relations(x[run], count, relation_heads) for x in (student, teacher))
            total = total + F.kl_div(ours, theirs, reduction="sum", log_target=True)
    return Loss(total / relation_heads, student.shape[0])


def _log_relations(x: Tensor, sequences: int, relation_heads: int) -> Tensor:
    """Relate the tokens of sequences of one length: (R·T, …) -> (R, A, T, T)."""
    x = x.float().flatten(1).unflatten(1, (relation_heads, -1)).unflatten(0, (sequences, -1)).transpose(1, 2)
    return scaled_scores(x, x).log_softmax(-1)
