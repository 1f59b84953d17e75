"""Multi-head attention: several heads look at the same tokens through their own queries, keys and values."""

# D width · H heads · K head width · R sequences of T tokens; … is (N) packed or (B, T) padded

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.nn.attend import Attend
from clearhead.nn.config import check_heads
from clearhead.nn.layout import Layout, Packed
from clearhead.nn.linear import linear, onto
from clearhead.nn.positions import Rotary


class MultiHeadAttention(nn.Module):
    """H heads side by side, … × (H·K), times the output matrix, back to … × D.

    Queries, keys and values come out of one matrix product; `window` limits how far a token sees.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.rotary = rotary
        self.attend = Attend(window, dropout)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Mix the tokens of each sequence: (…, D) -> (…, D)."""
        q, k, v = linear(self.qkv, x).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (…, H, K) each
        if self.rotary is not None:
            q, k = self.rotary(q, k, layout.positions)
        mixed: Tensor = linear(self.output, self.attend(q, k, v, layout).flatten(-2))
        return mixed

    def sees_all(self, longest: int) -> bool:
        """Whether every token sees all others of its sequence, up to this length."""
        return self.attend.window is None or longest <= self.attend.window + 1

    def onto(self, residual: Tensor, x: Tensor, layout: Packed) -> Tensor:
        """residual + self(x, layout) in as few calls as there can be, where all is seen: (N, D) -> (N, D)."""
        qkv, mixed = linear(self.qkv, x), []
        for start, count, length in layout.runs:
            run = qkv if count * length == len(qkv) else qkv[start : start + count * length]
            run = run.view(count, length, 3 * self.heads, -1)  # (R, T, 3 H, K)
            if self.rotary is not None:
                self.rotary.turn(run[:, :, : 2 * self.heads])
            q, k, v = run.unflatten(2, (3, self.heads)).permute(2, 0, 3, 1, 4)  # (R, H, T, K) each
            mixed.append(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(count * length, -1))
        return onto(residual, self.output, mixed[0] if len(mixed) == 1 else torch.cat(mixed))
