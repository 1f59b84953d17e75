"""Several layers of one network as one vector, in shares that are learnt (Peters et al. 2018, equation 1)."""

# K layers · D width

import torch
from torch import Tensor, nn


class LayerMix(nn.Module):
    """γ Σ softmax(w)_k h_k: equal shares at first."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """(…, K, D) -> (…, D)."""
        return self.scale * torch.einsum("k,...kd->...d", self.shares.softmax(0), states)
