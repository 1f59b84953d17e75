"""Attention from its simplest form up, each a few lines: no parameters, keys and values, scaled.

The form with several heads and learned matrices is `nn.multihead`; the fast ways to compute it are in `nn.attend`.
"""

# T query length · S key length · D width · K head width

from torch import Tensor


def self_attention(x: Tensor) -> Tensor:
    """Mix the rows of x (T, D) by their similarity to one another, softmax(x xᵀ) x: no parameters at all."""
    return (x @ x.mT).softmax(-1) @ x


def key_value(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Look queries up in a soft dictionary: q (T, K), keys k (S, K), values v (S, D) -> q kᵀ v (T, D)."""
    return q @ k.mT @ v


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √K) v and its weights: q (…, T, K), k and v (…, S, K) -> (…, T, K), (…, T, S).

    `allowed` is True where a query may see a key, or a number to add to each score, -inf where it may not; a query
    that may see nothing gets zeros.
    """
    scores = scaled_scores(q, k)
    if allowed is None:
        weights = scores.softmax(-1)
    elif allowed.is_floating_point():
        weights = (scores + allowed).softmax(-1).nan_to_num(0.0)
    else:
        weights = scores.masked_fill(~allowed, -float("inf")).softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Match every query with every key and divide by √K, so that the softmax keeps its gradients: (…, T, S)."""
    return q @ k.mT * q.shape[-1] ** -0.5
