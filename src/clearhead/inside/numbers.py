"""Tensors as numbers for a page and for programs."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadCheckpoint, require


def rounded(x: Tensor, digits: int = 4) -> Any:
    """Lists of numbers with so many decimals, nested as the tensor is; -0.0 is written as 0."""
    require(
        bool(x.isfinite().all()),
        "the model computes numbers that are not finite; its weights are damaged",
        BadCheckpoint,
    )
    # in double precision a rounded number is written with no more digits than it has
    return (x.detach().cpu().double().round(decimals=digits) + 0.0).tolist()


def cosines(x: Tensor) -> Tensor:
    """The cosine of every vector with every other: (…, T, D) -> (…, T, T)."""
    unit = F.normalize(x, dim=-1)
    return unit @ unit.mT


def flat_map(x: Tensor) -> tuple[Tensor, Tensor]:
    """Principal components: vectors (T, D) -> places on a plane (T, 2), and the shares of the variance they show.

    The sign of each axis is fixed, so that the same vectors always give the same map.
    """
    centred = (x - x.mean(0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    places = F.pad(left * sizes, (0, 2))[:, :2]
    signs = places.gather(0, places.abs().argmax(0, keepdim=True)).sign()
    # what equal vectors differ by when they are subtracted from their mean is rounding, and no variance
    rounding = 1e-10 * (x.double() ** 2).sum().clamp(min=1e-12)
    shares = F.pad(sizes**2 / (sizes**2).sum().clamp(min=rounding), (0, 2))[:2]
    return (places * signs.where(signs != 0, 1.0)).float(), shares.float()
