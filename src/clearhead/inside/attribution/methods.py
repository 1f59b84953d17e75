"""Five ways to say how much each token mattered. Each is called as `method(target)` and gives one number a token."""

# n steps · T tokens · H heads · E embedding width

from collections.abc import Callable

import torch
from torch import Tensor

from clearhead.inside.attribution.target import Target
from clearhead.inside.layer import Layer
from clearhead.inside.trace import trace_ids

STEPS = 32  # of the integral; more would change the fourth digit


def attention(target: Target) -> Tensor:
    """The last layer's weights, from where the head reads, mean over heads: (T,)."""
    return _mean_weights(_layers(target)[-1])[target.looks_from].mean(0)


def rollout(target: Target) -> Tensor:
    """Abnar & Zuidema 2020: weights and residuals multiplied through all layers, from where the head reads: (T,)."""
    return rolled_out(_layers(target))[target.looks_from].mean(0)


def gradient_times_input(target: Target) -> Tensor:
    """The slope of the logit along each token's own vector: (T,)."""
    vectors = target.vectors(target.ids)
    _, gradient = target.gradient(vectors[None])
    return (gradient[0] * vectors).sum(-1).float().cpu()


def integrated_gradients(target: Target) -> Tensor:
    """Sundararajan et al. 2017: the slope, gathered on the way from hidden tokens to the real ones: (T,).

    The numbers add up to what the logit gains on that way.
    """
    start, end = target.vectors(target.hidden(target.hidable)), target.vectors(target.ids)
    # the middle of each step: the error falls with the square of their number
    shares = (torch.arange(STEPS, device=end.device, dtype=end.dtype) + 0.5) / STEPS
    _, gradient = target.gradient(start + shares[:, None, None] * (end - start))
    return ((end - start) * gradient.mean(0)).sum(-1).float().cpu()


def leave_one_out(target: Target) -> Tensor:
    """What the logit loses when one token is hidden: (T,), 0 for special tokens."""
    rows = [target.hidden([]), *(target.hidden([position]) for position in target.hidable)]
    logits, _ = target.scores(torch.stack(rows))
    found = torch.zeros(len(target.ids))
    found[target.hidable] = logits[0] - logits[1:]
    return found


METHODS: dict[str, Callable[[Target], Tensor]] = {
    "attention": attention,
    "attention rollout": rollout,
    "gradient × input": gradient_times_input,
    "integrated gradients": integrated_gradients,
    "leave one out": leave_one_out,
}


def rolled_out(layers: list[Layer]) -> Tensor:
    """From which input token each output token can have come, (T, T); rows sum to 1."""
    size = layers[0].q.shape[-2]
    flow = torch.eye(size)
    for layer in layers:
        # half of a token's vector comes past the attention, by the residual connection
        flow = (_mean_weights(layer) + torch.eye(size)) / 2 @ flow
    return flow


def _layers(target: Target) -> list[Layer]:
    return trace_ids(target.network.encoder, target.ids, target.segments).layers


def _mean_weights(layer: Layer) -> Tensor:
    return torch.stack([layer.attention(head) for head in range(layer.heads)]).mean(0)
