"""Replaced tokens (ELECTRA, Clark et al. 2020): a generator fills masks, a discriminator finds what it made up."""

# N packed tokens · M masked tokens · V vocabulary

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.objectives.loss import Loss

# section 3.2: the loss per token of a yes-or-no question is far smaller than that of a choice among all tokens
WEIGHTS = {"masked_lm": 1.0, "replaced": 50.0}


def sample_tokens(logits: Tensor, rng: torch.Generator | None = None) -> Tensor:
    """Draw a token from the softmax of each row: (M, V) -> (M,). No gradient goes back; it could not be passed on."""
    # compiled code takes no generator, not even None
    uniform = torch.rand_like(logits, dtype=torch.float32) if rng is None else _uniform(logits, rng)
    gumbel = -(-uniform.log()).log()  # the largest of logits + Gumbel noise is a draw from their softmax
    return (logits.detach().float() + gumbel).argmax(-1)


def _uniform(logits: Tensor, rng: torch.Generator) -> Tensor:
    return torch.rand(logits.shape, generator=rng, device=logits.device)


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
    count = replaced.shape[0]
    found = logits > 0
    right = found == replaced.bool()
    return Loss(
        total, count, {"accuracy": (right.sum(), count), "recall": ((found & replaced.bool()).sum(), replaced.sum())}
    )
