"""What a query may see, as the masks that attention takes: bool, True = may be seen, or floats to add to the scores."""

# B batch · T queries · S keys · H heads

from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.nn.layout import Padded


class Sight(NamedTuple):
    """The rules of one attention: only backwards, only nearby, and what is added to each score."""

    causal: bool = False
    window: int | None = None
    bias: Tensor | None = None  # (H, T, S) or (B, H, T, S)


def window_mask(length: int, window: int, device: torch.device) -> Tensor:
    """Neighbours within `window` on either side: (T, T) bool, True = may be attended."""
    place = torch.arange(length, device=device)
    return (place[:, None] - place[None, :]).abs() <= window


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Every token sees itself and what is before it: (T, T) bool."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def in_run(length: int, seen: int, sight: Sight, q: Tensor) -> tuple[Tensor | None, bool]:
    """The mask of sequences of one length, and whether it is causal and nothing else, which needs no mask."""
    near = None
    if sight.window is not None and sight.window < length - 1:
        near = window_mask(length, sight.window, q.device)
    if near is None and sight.bias is None:
        return None, sight.causal
    back = causal_mask(length, q.device) if sight.causal else None
    bias = None if sight.bias is None else sight.bias[..., :length, :seen]
    return _joined(near, back, bias), False


def in_rectangle(layout: Padded, keys: Padded, sight: Sight, q: Tensor) -> tuple[Tensor | None, bool]:
    """The mask of a padded rectangle, and whether it is causal and nothing else."""
    real = keys.allowed  # (B, 1, 1, S)
    if real is None and sight.window is None and sight.bias is None:
        return None, sight.causal
    near = None
    if sight.window is not None:  # by position, because padding may lie between two neighbours
        near = (layout.positions[:, None, :, None] - keys.positions[:, None, None, :]).abs() <= sight.window
    back = causal_mask(layout.max_length, q.device) if sight.causal else None
    return _joined(real, near, back, sight.bias), False


def _joined(*masks: Tensor | None) -> Tensor | None:
    """Join masks with `&`; of a bias, what may not be seen becomes -inf."""
    joined: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        if joined is None:
            joined = mask
        elif mask.is_floating_point():
            joined = torch.where(joined, mask, -torch.inf)
        else:
            joined = joined & mask
    return joined
