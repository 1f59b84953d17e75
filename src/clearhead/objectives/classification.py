"""Objectives of fine-tuning but for `cross_entropy`: several classes, numbers, answer spans, choices, vectors."""

# B sequences · N packed tokens · L labels · Q questions, each of several sequences
# G groups of N items together · C columns
# P pairs, as 2·P sequences: first all anchors, then all positives · D width

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.nn.layout import Packed
from clearhead.objectives.loss import Loss, cross_entropy


def multi_label(logits: Tensor, classes: Tensor) -> Loss:
    """Compare logits (B, L) with multi-hot classes (B, L): L questions with yes or no for each sequence."""
    total = F.binary_cross_entropy_with_logits(logits.float(), classes.float(), reduction="sum")
    count = classes.numel()
    return Loss(total, count, {"accuracy": (((logits > 0) == classes.bool()).sum(), count)})


def regression(logits: Tensor, scores: Tensor) -> Loss:
    """Compare logits (B, 1) with scores (B,): squared error."""
    return Loss(F.mse_loss(logits.float().squeeze(-1), scores.float(), reduction="sum"), scores.shape[0])


def group_log_softmax(logits: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Log-softmax of each column over each group's own items, (N, C), and each group's largest, (G, C); sizes (G,)."""
    x, groups = logits.float(), sizes.shape[0]
    owner = torch.repeat_interleave(sizes.long(), output_size=x.shape[0])  # whose sum is known without a transfer

    def largest(x: Tensor) -> Tensor:
        lowest = x.new_full((groups, x.shape[1]), -torch.inf)
        return lowest.scatter_reduce(0, owner.unsqueeze(-1).expand_as(x), x, "amax")

    shifted = x - largest(x.detach())[owner]
    sums = x.new_zeros(groups, x.shape[1]).index_add(0, owner, shifted.exp())
    log_probs = shifted - sums.log()[owner]
    return log_probs, largest(log_probs.detach())


def answer_span(logits: Tensor, layout: Packed, starts: Tensor, ends: Tensor) -> Loss:
    """Compare logits (N, 2) with positions (B,) in each sequence: a softmax over its own tokens, for start and end.

    A sequence whose start or end lies outside it is ignored. The loss is the mean of the two.
    """
    log_probs, best = group_log_softmax(logits, layout.offsets.diff())  # (N, 2), (B, 2)
    inside = answerable(layout, starts, ends).unsqueeze(-1)  # (B, 1)
    places = layout.offsets[:-1].unsqueeze(-1) + torch.stack([starts, ends], -1)  # (B, 2)
    # a place that is ignored may lie anywhere; any token will do for it
    chosen = log_probs.gather(0, places.where(inside, 0)).where(inside, 0.0)
    right = (chosen >= best) & inside
    count = inside.sum()
    return Loss(-chosen.sum() / 2, count, {"accuracy": (right.all(-1).sum(), count)})


def answerable(layout: Packed, starts: Tensor, ends: Tensor) -> Tensor:
    """Tell which sequences hold both their start and their end: (B,) bool."""
    lengths = layout.offsets.diff()
    return (starts >= 0) & (starts < lengths) & (ends >= 0) & (ends < lengths)


def multiple_choice(logits: Tensor, choices: Tensor, choice: Tensor) -> Loss:
    """Compare logits (B, 1) with the right candidate `choice` (Q,) of each question, which has `choices` (Q,) of them.

    The softmax goes over each question's own candidates, however many there are.
    """
    count = choices.shape[0]
    log_probs, best = group_log_softmax(logits, choices)  # (B, 1), (Q, 1)
    chosen = log_probs[choices.cumsum(0) - choices + choice]  # (Q, 1)
    return Loss(-chosen.sum(), count, {"accuracy": ((chosen >= best).sum(), count)})


def in_batch_negatives(vectors: Tensor, *, texts: int = 2, scale: float = 20.0) -> Loss:
    """Find each anchor's positive among all other vectors of the batch that are no anchors; vectors (texts·P, D).

    By `scale` times their cosines, one over the temperature. Of three `texts` the third is a negative one.
    """
    scores = scale * anchor_cosines(vectors, texts)
    return cross_entropy(scores, torch.arange(len(scores), device=scores.device), len(scores))


def anchor_cosines(vectors: Tensor, texts: int) -> Tensor:
    """Compare the anchors, which come first, with all other vectors (texts·P, D) -> (P, (texts - 1)·P)."""
    sequences = vectors.shape[0]
    whole = sequences % texts == 0
    require(whole, f"{sequences} sequences are no items of {texts}; give all anchors, then all positives", BadInput)
    with torch.autocast(vectors.device.type, enabled=False):  # which would make the product half precision
        anchors, others = F.normalize(vectors.float(), dim=-1).tensor_split([sequences // texts])
        return anchors @ others.mT


def cosine_regression(vectors: Tensor, similarity: Tensor) -> Loss:
    """Compare the cosine of each pair in vectors (2·P, D) with its similarity (P,), from -1 to 1: squared error."""
    cosine = F.cosine_similarity(*_pairs(vectors), dim=-1)
    return Loss(F.mse_loss(cosine, similarity.float(), reduction="sum"), similarity.shape[0])


def similarity_ranking(vectors: Tensor, similarity: Tensor, *, scale: float = 20.0) -> Loss:
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
