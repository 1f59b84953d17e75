"""Sentence vectors: a pair belongs together and others do not, or its cosine is given, or the order of all pairs."""

# P pairs, as 2·P sequences: first all anchors, then all positives · D width

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.objectives.loss import Loss


def in_batch_negatives(vectors: Tensor, *, scale: float = 20.0) -> Loss:
    """Find each anchor's positive among the batch's positives, by `scale` times their cosines; vectors (2·P, D).

    `scale` is one over the temperature.
    """
    anchors, positives = _pairs(vectors)
    with torch.autocast(vectors.device.type, enabled=False):  # which would make the product half precision
        scores = scale * F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).mT  # (P, P)
    own = torch.arange(scores.shape[0], device=scores.device)
    total = F.cross_entropy(scores, own, reduction="sum")
    count = scores.shape[0]
    return Loss(total, count, {"accuracy": ((scores.argmax(-1) == own).sum(), count)})


def cosine_regression(vectors: Tensor, similarity: Tensor) -> Loss:
    """Compare the cosine of each pair in vectors (2·P, D) with its similarity (P,), from -1 to 1: squared error."""
    cosine = F.cosine_similarity(*_pairs(vectors), dim=-1)
    return Loss(F.mse_loss(cosine, similarity.float(), reduction="sum"), similarity.shape[0])


def similarity_order(vectors: Tensor, similarity: Tensor, *, scale: float = 20.0) -> Loss:
    """Give the more similar of any two pairs the greater cosine; vectors (2·P, D), similarity (P,).

    The logarithm of one plus exp(`scale` times by how much the lesser exceeds), summed over all such twos (Su 2022).
    """
    cosine = scale * F.cosine_similarity(*_pairs(vectors), dim=-1)
    excess = cosine - cosine[:, None]  # (P, P): how much the second's is above the first's
    lesser = similarity < similarity[:, None]
    ordered = F.pad(excess.masked_fill(~lesser, -torch.inf).flatten(), (0, 1))  # the 0 is the one
    count = similarity.shape[0]
    return Loss(count * ordered.logsumexp(0), count)


def _pairs(vectors: Tensor) -> tuple[Tensor, Tensor]:
    sequences = vectors.shape[0]
    require(sequences % 2 == 0, f"{sequences} sequences are no pairs; give all anchors, then all positives", BadInput)
    anchors, positives = vectors.float().split(sequences // 2) if sequences else (vectors.float(),) * 2
    return anchors, positives
