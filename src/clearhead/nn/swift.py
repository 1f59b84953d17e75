"""When a block may take the short way: on a CPU, for use alone, and when nobody looks inside.

A short query spends as long between the products as some of them take. On the short way sums are part of the products,
and neither modules nor dropout are called; the numbers are the same.
"""

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.nn.layout import Layout, Packed
from clearhead.nn.linear import quick


def swift(block: Any, x: Tensor, layout: Layout) -> bool:
    """Whether both parts of a block can add their results `onto` packed tokens, and no hook wants to see them."""
    attention, feedforward = block.attention, block.feedforward
    return (
        quick(x)
        and type(layout) is Packed
        and layout.backend is None
        and not block.training
        and hasattr(attention, "onto")
        and attention.sees_all(layout.max_length)
        and hasattr(feedforward, "onto")
        and not any(map(_watched, (attention, attention.attend, feedforward, block.norm_1, block.norm_2)))
        and (attention.rotary is None or not _watched(attention.rotary))
    )


def normalised(norm: Any, x: Tensor) -> Tensor:
    """norm(x), past the module's own wrappers where it is a LayerNorm."""
    if type(norm) is nn.LayerNorm:
        return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    result: Tensor = norm(x)
    return result


def _watched(part: nn.Module) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks)
