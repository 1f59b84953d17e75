"""Multi-head attention: several heads look at the same tokens through their own queries, keys and values."""

# D width · H heads · K head width; … is (N) packed or (B, T) padded

from torch import Tensor, nn

from clearhead.nn.attend import Attend
from clearhead.nn.config import check_heads
from clearhead.nn.layout import Layout
from clearhead.nn.linear import linear
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
