"""Agreement: under two draws of dropout a network should say the same (R-Drop, Liang et al. 2021)."""

# N packed tokens · V vocabulary

from torch import Tensor

from clearhead.objectives.loss import Loss


def agreement(logits: Tensor) -> Loss:
    """Compare the first half of logits (2N, V) with the second: the mean of both divergences, halved as each loss is.

    With the mean loss of both halves beside it, times one, this weighs as the paper's alpha does.
    """
    first, second = logits.float().log_softmax(-1).chunk(2)
    # KL(p, q) + KL(q, p) in one sum
    both = ((first.exp() - second.exp()) * (first - second)).sum()
    return Loss(both / 4, first.shape[0])
