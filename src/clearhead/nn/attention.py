"""Attention from its simplest form up: formulas, masks, one fast function for every layout, multiple heads."""

# T query length · S key length · D width · K head width
# B batch · T queries · S keys · H heads
# B batch · T longest row of queries · S longest row of keys · N packed tokens · H heads · K head width · R sequences
# D width · H heads · K head width · R sequences of T tokens; … is (N) packed or (B, T) padded

from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadInput, check_heads
from clearhead.nn.fused import linear, linear_add
from clearhead.nn.layout import Backend, Layout, Packed, Padded
from clearhead.nn.positions import Rotary


def self_attention(x: Tensor) -> Tensor:
    """Mix the rows of x (T, D) by their similarity to one another, softmax(x xᵀ) x: no parameters at all."""
    return (x @ x.mT).softmax(-1) @ x


def key_value(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Look queries up in a soft dictionary: q (T, K), keys k (S, K), values v (S, D) -> q kᵀ v (T, D)."""
    return q @ k.mT @ v


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √K) v and its weights: q (…, T, K), k and v (…, S, K) -> (…, T, K), (…, T, S).

    `allowed` is True where a query may see a key, or a number to add to each score, -inf where it may not; a query
    that may see nothing gets zeros.
    """
    scores = scaled_scores(q, k)
    if allowed is None:
        weights = scores.softmax(-1)
    elif allowed.is_floating_point():
        weights = (scores + allowed).softmax(-1).nan_to_num(0.0)
    else:
        weights = scores.masked_fill(~allowed, -float("inf")).softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Match every query with every key and divide by √K, so that the softmax keeps its gradients: (…, T, S)."""
    return q @ k.mT * q.shape[-1] ** -0.5


class MaskSpec(NamedTuple):
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


def run_mask(length: int, seen: int, sight: MaskSpec, q: Tensor) -> tuple[Tensor | None, bool]:
    """The mask of sequences of one length, and whether it is causal and nothing else, which needs no mask."""
    near = None
    if sight.window is not None and sight.window < length - 1:
        near = window_mask(length, sight.window, q.device)
    if near is None and sight.bias is None:
        return None, sight.causal
    back = causal_mask(length, q.device) if sight.causal else None
    bias = None if sight.bias is None else sight.bias[..., :length, :seen]
    return _joined(near, back, bias), False


def padded_mask(layout: Padded, keys: Padded, sight: MaskSpec, q: Tensor) -> tuple[Tensor | None, bool]:
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
    sight = MaskSpec(causal, window, None if bias is None else bias.to(q.dtype))
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


def _varlen(q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: MaskSpec) -> Tensor:
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
    q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: MaskSpec, dropout: float
) -> Tensor:
    """Neighbouring sequences of equal length share one call, on views: no padding, no copy."""
    parts = []
    for mine, theirs, count, (length, seen) in _runs(layout, keys):
        rq = q[mine].unflatten(0, (count, length)).transpose(1, 2)  # (R, H, T, K)
        rk, rv = (x[theirs].unflatten(0, (count, seen)).transpose(1, 2) for x in (k, v))  # (R, H, S, K)
        allowed, plain = run_mask(length, seen, sight, q)
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
    q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: MaskSpec, dropout: float
) -> Tensor:
    (q, mine), (k, theirs), (v, _) = layout.pad(q), keys.pad(k), keys.pad(v)
    return _sdpa_padded(q, k, v, mine, theirs, sight, dropout).flatten(0, 1)[layout.places]


def _sdpa_padded(
    q: Tensor, k: Tensor, v: Tensor, layout: Padded, keys: Padded, sight: MaskSpec, dropout: float
) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    allowed, plain = padded_mask(layout, keys, sight, q)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=plain)
    return out.transpose(1, 2)


def _explicit_padded(q: Tensor, k: Tensor, v: Tensor, layout: Padded, keys: Padded, sight: MaskSpec) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    allowed, plain = padded_mask(layout, keys, sight, q)
    if plain:
        allowed = causal_mask(layout.max_length, q.device)
    out, _ = scaled_dot_product(q, k, v, allowed)
    return out.transpose(1, 2)


def _explicit_packed(q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, sight: MaskSpec) -> Tensor:
    (q, mine), (k, theirs), (v, _) = layout.pad(q), keys.pad(k), keys.pad(v)
    return _explicit_padded(q, k, v, mine, theirs, sight).flatten(0, 1)[layout.places]


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

    def add_to(self, residual: Tensor, x: Tensor, layout: Packed) -> Tensor:
        """residual + self(x, layout) in as few calls as there can be, where all is seen: (N, D) -> (N, D)."""
        qkv, mixed = linear(self.qkv, x), []
        for start, count, length in layout.runs:
            run = qkv if count * length == len(qkv) else qkv[start : start + count * length]
            run = run.view(count, length, 3 * self.heads, -1)  # (R, T, 3 H, K)
            if self.rotary is not None:
                self.rotary.turn(run[:, :, : 2 * self.heads])
            q, k, v = run.unflatten(2, (3, self.heads)).permute(2, 0, 3, 1, 4)  # (R, H, T, K) each
            mixed.append(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(count * length, -1))
        return linear_add(residual, self.output, mixed[0] if len(mixed) == 1 else torch.cat(mixed))
