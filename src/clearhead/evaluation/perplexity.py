"""Perplexity from summed losses: sums are added first and divided once, so batches of any size may be mixed."""

import math
from collections.abc import Sequence

from clearhead.errors import BadInput, require
from clearhead.evaluation.checks import same_length


def perplexity(losses: Sequence[float], counts: Sequence[int]) -> float:
    """exp of the mean negative log-likelihood (natural logarithm) of the predicted tokens.

    losses: the sum over each batch; counts: its predicted tokens. For a masked model these are the masked tokens, so
    two figures compare only at the same masking rate and vocabulary.
    """
    same_length(losses, counts, "counts")
    total, tokens = math.fsum(losses), sum(counts)
    some = min(counts) >= 0 and tokens > 0
    require(some, f"No token is to be guessed: the counts add up to {tokens} tokens; give longer texts.", BadInput)
    require(math.isfinite(total), f"The losses add up to {total}; a perplexity needs a finite sum.", BadInput)
    try:
        return math.exp(total / tokens)
    except OverflowError:
        return math.inf
