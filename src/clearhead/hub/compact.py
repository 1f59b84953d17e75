"""Matrices as int8 with a scale for each row: a quarter of the size on disk, floats again when they are read."""

# R rows · C columns

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".row_scale"
_LARGE = 1024  # numbers from which on it pays
_NARROW = 32


def compact(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Store large matrices (R, C) as int8 with scales (R, 1), narrow ones with (1, C); what is rounded off is gone."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() != 2 or tensor.numel() < _LARGE or not tensor.is_floating_point():
            stored[name] = tensor
            continue
        # a scale for each row of a few numbers would weigh as much as the row: there, one for each column
        across = 1 if tensor.shape[1] >= _NARROW else 0
        scale = tensor.float().abs().amax(across, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 127
        stored[name] = (tensor.float() / scale).round().clamp(-127, 127).to(torch.int8)
        stored[name + SCALE] = scale
    return stored


def expand(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Make floats of what `compact` stored; other tensors stay as they are."""
    scales = [name for name in tensors if name.endswith(SCALE) and name.removesuffix(SCALE) in tensors]
    for name in scales:
        # floats first: torch multiplies numbers of two kinds slowly
        tensors[name.removesuffix(SCALE)] = tensors[name.removesuffix(SCALE)].float().mul_(tensors.pop(name))
    return tensors
