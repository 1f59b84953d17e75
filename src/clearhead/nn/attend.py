"""One attention function for every layout and device: `attend(q, k, v, layout)`.

The back-ends compute the same thing and one test says so. Which one runs is chosen per call: the fastest that fits,
or the one named by the layout (`layout.using("explicit")`).
"""

# B batch · T longest row of queries · S longest row of keys · N packed tokens · H heads · K head width · R sequences

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadInput
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.layout import Backend, Layout, Packed, Padded
from clearhead.nn.sight import Sight, causal_mask, in_rectangle, in_run


class Attend(nn.Module):
    """`attend` as a part without parameters, so that a hook can see the q, k, v of every head of every layer."""

    def __init__(self, window: int | None = None, dropout: float = 0.0, *, causal: bool = False) -> None:
        super().__init__()
        self.window = window
        self.dropout = dropout
        self.causal = causal

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, keys: Layout | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Attend: (N, H, K) or (B, T, H, K) three times -> the shape of q. See `attend`."""
        dropout = self.dropout if self.training else 0.0
        causal = self.causal and keys is None  # other keys than the queries' own tokens have been before
        return attend(q, k, v, layout, keys=keys, causal=causal, window=self.window, bias=bias, dropout=dropout)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    *,
    keys: Layout | None = None,
    causal: bool = False,
    window: int | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Mix the values of each sequence by the match of queries and keys; q, k, v and result: (N, H, K) or (B, T, H, K).

    `keys` is the layout of k and v where it is not that of q. A token sees itself and what is before it if `causal`,
    at most `window` neighbours on either side, and nothing at all gives zeros. `bias` is added to the scores: (H, T, S)
    for the longest rows, or (B, H, T, S).
    """
    sight = Sight(causal, window, None if bias is None else bias.to(q.dtype))
    backend = layout.backend or fastest(q, layout, dropout, bias)
    if dropout and backend != "sdpa":
        raise BadInput(f"attention back-end {backend!r} has no dropout; choose 'sdpa' or set attention dropout to 0")
    if keys is not None and (causal or window is not None):
        raise BadInput("causal attention and windows are for a sequence that looks at itself; give no other keys")
    if keys is not None and type(keys) is not type(layout):
        raise BadInput("queries and keys must be laid out alike, both packed or both padded")
    match layout, keys or layout, backend:
        case Packed(), Packed() as seen, "varlen":
            return _varlen(q, k, v, layout, seen, sight)
        case Packed(), Packed() as seen, "sdpa":
            # a GPU is quicker with one call on a padded rectangle than with many small ones
            return (_sdpa_by_padding if q.is_cuda else _sdpa_by_runs)(q, k, v, layout, seen, sight, dropout)
        case Packed(), Packed() as seen, "explicit":
            return _explicit_packed(q, k, v, layout, seen, sight)
        case Padded(), Padded() as seen, "sdpa":
            return _sdpa_padded(q, k, v, layout, seen, sight, dropout)
        case Padded(), Padded() as seen, "explicit":
            return _explicit_padded(q, k, v, layout, seen, sight)
        case _:
            raise BadInput(f"attention back-end {backend!r} needs a packed layout; pack first or choose 'sdpa'")


def fastest(q: Tensor, layout: Layout, dropout: float, bias: Tensor | None = None) -> Backend:
    """Choose the fastest back-end that can do this call."""
    # the variable-length kernel exists for half precision on CUDA only, and has no dropout and no bias
    half = q.dtype in (torch.bfloat16, torch.float16)
    fits = isinstance(layout, Packed) and q.is_cuda and half and not dropout and bias is None
    return "varlen" if fits else "sdpa"


def _varlen(q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: Sight) -> Tensor:
    # here, because it brings torch's compiler with it, which takes two seconds to import
    from torch.nn.attention.varlen import varlen_attn

    if sight.bias is not None:
        raise BadInput("attention back-end 'varlen' has no bias; choose 'sdpa'")
    reach = -1 if sight.window is None else sight.window
    sides = (reach, 0 if sight.causal else reach)
    out = varlen_attn(q, k, v, layout.offsets, keys.offsets, layout.max_length, keys.max_length, window_size=sides)
    assert isinstance(out, Tensor)  # noqa: S101  a tuple only when auxiliary results are asked for
    return out


def _sdpa_by_runs(
    q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: Sight, dropout: float
) -> Tensor:
    """Neighbouring sequences of equal length share one call, on views: no padding, no copy."""
    parts = []
    for mine, theirs, count, (length, seen) in _runs(layout, keys):
        rq = q[mine].unflatten(0, (count, length)).transpose(1, 2)  # (R, H, T, K)
        rk, rv = (x[theirs].unflatten(0, (count, seen)).transpose(1, 2) for x in (k, v))  # (R, H, S, K)
        allowed, plain = in_run(length, seen, sight, q)
        out = F.scaled_dot_product_attention(rq, rk, rv, attn_mask=allowed, dropout_p=dropout, is_causal=plain)
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts) if parts else torch.zeros_like(q)


def _runs(layout: Packed, keys: Packed) -> list[tuple[slice, slice, int, tuple[int, int]]]:
    """Neighbours alike in queries and keys: their queries, their keys, how many, and the two lengths."""
    if keys is layout:
        return [
            (slice(start, start + count * length), slice(start, start + count * length), count, (length, length))
            for start, count, length in layout.runs
        ]
    runs, start, begin = [], 0, 0
    for (length, seen), group in groupby(zip(layout.lengths, keys.lengths, strict=True)):
        count = len(list(group))
        end, until = start + count * length, begin + count * seen
        if length:
            runs.append((slice(start, end), slice(begin, until), count, (length, seen)))
        start, begin = end, until
    return runs


def _sdpa_by_padding(
    q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: Sight, dropout: float
) -> Tensor:
    (q, mine), (k, theirs), (v, _) = layout.pad(q), keys.pad(k), keys.pad(v)
    return _sdpa_padded(q, k, v, mine, theirs, sight, dropout).flatten(0, 1)[layout.places]


def _sdpa_padded(q: Tensor, k: Tensor, v: Tensor, layout: Padded, keys: Padded, sight: Sight, dropout: float) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    allowed, plain = in_rectangle(layout, keys, sight, q)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=plain)
    return out.transpose(1, 2)


def _explicit_padded(q: Tensor, k: Tensor, v: Tensor, layout: Padded, keys: Padded, sight: Sight) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    allowed, plain = in_rectangle(layout, keys, sight, q)
    if plain:
        allowed = causal_mask(layout.max_length, q.device)
    out, _ = scaled_dot_product(q, k, v, allowed)
    return out.transpose(1, 2)


def _explicit_packed(q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: Sight) -> Tensor:
    (q, mine), (k, theirs), (v, _) = layout.pad(q), keys.pad(k), keys.pad(v)
    return _explicit_padded(q, k, v, mine, theirs, sight).flatten(0, 1)[layout.places]
