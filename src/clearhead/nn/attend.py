"""One attention function for every layout and device: `attend(q, k, v, layout)`.

The back-ends compute the same thing and one test says so. Which one runs is chosen per call: the fastest that fits,
or the one named by the layout (`layout.using("explicit")`).
"""

# B batch · T longest sequence · N packed tokens · H heads · K head width · R sequences in a run

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

from clearhead.errors import BadInput
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.layout import Backend, Layout, Packed, Padded


class Attend(nn.Module):
    """`attend` as a part without parameters, so that a hook can see the q, k, v of every head of every layer."""

    def __init__(self, window: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.window = window
        self.dropout = dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
        """Attend: (N, H, K) or (B, T, H, K) three times -> the same shape."""
        return attend(q, k, v, layout, window=self.window, dropout=self.dropout if self.training else 0.0)


def attend(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout, *, window: int | None = None, dropout: float = 0.0
) -> Tensor:
    """Mix the values of each sequence by the match of queries and keys; q, k, v and result: (N, H, K) or (B, T, H, K).

    With a `window`, a token sees at most that many neighbours on either side. A token with nothing to see gets zeros.
    """
    backend = layout.backend or fastest(q, layout, dropout)
    if dropout and backend != "sdpa":
        raise BadInput(f"attention back-end {backend!r} has no dropout; choose 'sdpa' or set attention dropout to 0")
    match layout, backend:
        case Packed(), "varlen":
            return _varlen(q, k, v, layout, window)
        case Packed(), "sdpa":
            # a GPU is quicker with one call on a padded rectangle than with many small ones
            return (_sdpa_by_padding if q.is_cuda else _sdpa_by_runs)(q, k, v, layout, window, dropout)
        case Packed(), "explicit":
            return _explicit_packed(q, k, v, layout, window)
        case Padded(), "sdpa":
            return _sdpa_padded(q, k, v, layout, window, dropout)
        case Padded(), "explicit":
            return _explicit_padded(q, k, v, layout, window)
        case _:
            raise BadInput(f"attention back-end {backend!r} needs a packed layout; pack first or choose 'sdpa'")


def fastest(q: Tensor, layout: Layout, dropout: float) -> Backend:
    """Choose the fastest back-end that can do this call."""
    # the variable-length kernel exists for half precision on CUDA only, and has no dropout
    half = q.dtype in (torch.bfloat16, torch.float16)
    return "varlen" if isinstance(layout, Packed) and q.is_cuda and half and not dropout else "sdpa"


def window_mask(length: int, window: int, device: torch.device) -> Tensor:
    """Neighbours within `window` on either side: (T, T) bool, True = may be attended."""
    place = torch.arange(length, device=device)
    return (place[:, None] - place[None, :]).abs() <= window


def _varlen(q: Tensor, k: Tensor, v: Tensor, layout: Packed, window: int | None) -> Tensor:
    sides = (-1, -1) if window is None else (window, window)
    longest = layout.max_length
    out = varlen_attn(q, k, v, layout.offsets, layout.offsets, longest, longest, window_size=sides)
    assert isinstance(out, Tensor)  # noqa: S101  a tuple only when auxiliary results are asked for
    return out


def _sdpa_by_runs(q: Tensor, k: Tensor, v: Tensor, layout: Packed, window: int | None, dropout: float) -> Tensor:
    """Neighbouring sequences of equal length share one call, on views: no padding, no copy."""
    parts = []
    for start, count, length in layout.runs:
        run = slice(start, start + count * length)
        rq, rk, rv = (x[run].unflatten(0, (count, length)).transpose(1, 2) for x in (q, k, v))  # (R, H, T, K)
        allowed = window_mask(length, window, q.device) if window is not None and window < length - 1 else None
        out = F.scaled_dot_product_attention(rq, rk, rv, attn_mask=allowed, dropout_p=dropout)
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts) if parts else torch.zeros_like(q)


def _sdpa_by_padding(q: Tensor, k: Tensor, v: Tensor, layout: Packed, window: int | None, dropout: float) -> Tensor:
    (q, padded), (k, _), (v, _) = layout.pad(q), layout.pad(k), layout.pad(v)
    return _sdpa_padded(q, k, v, padded, window, dropout).flatten(0, 1)[layout.places]


def _sdpa_padded(q: Tensor, k: Tensor, v: Tensor, layout: Padded, window: int | None, dropout: float) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=_allowed(layout, window), dropout_p=dropout)
    return out.transpose(1, 2)


def _explicit_padded(q: Tensor, k: Tensor, v: Tensor, layout: Padded, window: int | None) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    out, _ = scaled_dot_product(q, k, v, _allowed(layout, window))
    return out.transpose(1, 2)


def _explicit_packed(q: Tensor, k: Tensor, v: Tensor, layout: Packed, window: int | None) -> Tensor:
    (q, padded), (k, _), (v, _) = layout.pad(q), layout.pad(k), layout.pad(v)
    return _explicit_padded(q, k, v, padded, window).flatten(0, 1)[layout.places]


def _allowed(layout: Padded, window: int | None) -> Tensor | None:
    if window is None:
        return layout.allowed  # (B, 1, 1, T)
    near = (layout.positions[:, :, None] - layout.positions[:, None, :]).abs() <= window
    return (near & layout.keep.unsqueeze(1)).unsqueeze(1)  # (B, 1, T, T)
