"""Objectives of language models: masked, causal, replaced tokens, negative sampling, agreement."""

# N packed tokens · M masked tokens or places · V vocabulary · B sequences · K words drawn at random

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.objectives.loss import Loss, cross_entropy


def masked_lm(logits: Tensor, labels: Tensor) -> Loss:
    """Compare logits (M, V) at the masked places alone with the true ids (M,); nothing is ignored."""
    return cross_entropy(logits, labels, labels.shape[0])


def causal_lm(logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Loss:
    """Compare logits (N, V) with the tokens that are to be written (N,), but for those that are IGNORE_INDEX.

    The metric `nll` is the loss without smoothing: exp of its mean is the perplexity.
    """
    logits = logits.float()
    plain = cross_entropy(logits, labels)
    total = plain.total
    if label_smoothing:
        total = F.cross_entropy(
            logits, labels, ignore_index=IGNORE_INDEX, label_smoothing=label_smoothing, reduction="sum"
        )
    return Loss(total, plain.count, {"nll": (plain.total, plain.count), **plain.metrics})


# section 3.2: the loss per token of a yes-or-no question is far smaller than that of a choice among all tokens
WEIGHTS = {"masked_lm": 1.0, "replaced": 50.0}


def sample_tokens(logits: Tensor) -> Tensor:
    """Draw a token from the softmax of each row: (M, V) -> (M,). No gradient goes back; it could not be passed on."""
    uniform = torch.rand_like(logits, dtype=torch.float32)  # compiled code takes no generator, not even None
    gumbel = -(-uniform.log()).log()  # the largest of logits + Gumbel noise is a draw from their softmax
    return (logits.detach().float() + gumbel).argmax(-1)


def corrupt(batch: Batch, sampled: Tensor) -> Batch:
    """Put the sampled tokens (M,) where the masks are; the new target `replaced` (N,) is 1 where that is another token.

    A token that was drawn by luck as it stood in the text counts as original.
    """
    where, labels = batch.targets["where"], batch.targets["labels"]
    replaced = torch.zeros_like(batch.ids).scatter(0, where, (sampled != labels).long())
    return replace(batch, ids=batch.ids.scatter(0, where, sampled), targets={"replaced": replaced})


def replaced_tokens(logits: Tensor, replaced: Tensor) -> Loss:
    """Compare logits (N,) of all tokens, not only the masked ones, with 1 = replaced, 0 = original (N,)."""
    total = F.binary_cross_entropy_with_logits(logits.float(), replaced.float(), reduction="sum")
    found, truth, count = logits > 0, replaced.bool(), replaced.shape[0]
    recall = (found & truth).sum(), replaced.sum()
    return Loss(total, count, {"accuracy": ((found == truth).sum(), count), "recall": recall})


def negative_sampling(logits: Tensor, candidates: Tensor) -> Loss:
    """Compare logits (M, 1 + K) of candidates (M, 1 + K), the true word first: it is likely, the others are not.

    A word that was drawn although it is the true one teaches nothing.
    """
    logits = logits.float()
    right = F.softplus(-logits[:, 0])
    wrong = F.softplus(logits[:, 1:]).masked_fill(candidates[:, 1:] == candidates[:, :1], 0.0)
    count = candidates.shape[0]
    best = (logits[:, :1] >= logits[:, 1:]).all(-1).sum()
    return Loss(right.sum() + wrong.sum(), count, {"accuracy": (best, count)})


def agreement(logits: Tensor) -> Loss:
    """Compare the first half of logits (2N, V) with the second: the mean of both divergences, halved as each loss is.

    With the mean loss of both halves beside it, times one, this weighs as the paper's alpha does.
    """
    first, second = logits.float().log_softmax(-1).chunk(2)
    # KL(p, q) + KL(q, p) in one sum
    both = ((first.exp() - second.exp()) * (first - second)).sum()
    return Loss(both / 4, first.shape[0])
