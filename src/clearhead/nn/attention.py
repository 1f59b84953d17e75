"""Attention from its simplest form up: formulas, masks, one fast function for every layout, multiple heads."""

# B batch · N packed tokens · R sequences of one length · T queries · S keys · D width · H heads · K head width
# … is (N) packed or (B, T) padded

import math
from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadInput, check_heads
from clearhead.nn.cache import LayerCache
from clearhead.nn.fused import Sum, bound, bound_add, linear, linear_add
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

    `allowed` is True where a query may attend to a key, or a number to add to each score, -inf where it may not; a
    query that may attend to nothing gets zeros.
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
    """q kᵀ / √K, the dot product of every query and key, scaled so that the softmax keeps its gradients: (…, T, S)."""
    return q @ k.mT * q.shape[-1] ** -0.5


class MaskSpec(NamedTuple):
    """What a query may attend to, and what is added to its scores."""

    causal: bool = False  # itself and what is before it
    window: int | None = None  # at most so many neighbours on either side
    bias: Tensor | None = None  # (H, T, S) or (B, H, T, S)


def window_mask(length: int, window: int, device: torch.device) -> Tensor:
    """Neighbours within `window` on either side: (T, T) bool, True = may be attended."""
    position = torch.arange(length, device=device)
    return (position[:, None] - position[None, :]).abs() <= window


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Every token itself and what is before it: (T, T) bool, True = may be attended."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def run_mask(queries: int, keys: int, mask: MaskSpec, device: torch.device) -> tuple[Tensor | None, bool]:
    """The mask of sequences of one length, and whether it is causal and nothing else, which needs no tensor."""
    near = None
    if mask.window is not None and mask.window < queries - 1:
        near = window_mask(queries, mask.window, device)
    if near is None and mask.bias is None:
        return None, mask.causal
    back = causal_mask(queries, device) if mask.causal else None
    bias = None if mask.bias is None else mask.bias[..., :queries, :keys]
    return _joined(bias, near, back), False


def padded_mask(layout: Padded, keys: Padded, mask: MaskSpec, device: torch.device) -> tuple[Tensor | None, bool]:
    """The mask of a padded rectangle, and whether it is causal and nothing else."""
    real = keys.allowed  # (B, 1, 1, S)
    if real is None and mask.window is None and mask.bias is None:
        return None, mask.causal
    near = None
    if mask.window is not None:  # by position, because padding may lie between two neighbours
        near = (layout.positions[:, None, :, None] - keys.positions[:, None, None, :]).abs() <= mask.window
    back = causal_mask(layout.max_length, device) if mask.causal else None
    return _joined(mask.bias, real, near, back), False


def _joined(bias: Tensor | None, *masks: Tensor | None) -> Tensor | None:
    """Join masks with `&`; a bias becomes -inf where they forbid a key."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return bias
    allowed = given[0]
    for mask in given[1:]:
        allowed = allowed & mask
    return allowed if bias is None else torch.where(allowed, bias, -torch.inf)


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
        causal = self.causal and keys is None  # keys of a cache or a source all come before the queries
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
    """Softmax attention within each sequence; q, k, v and result: (N, H, K) or (B, T, H, K).

    `keys` is the layout of k and v where it is not that of q. If `causal`, a token attends to itself and what is before
    it; with a `window`, to so many neighbours on either side; a token that may attend to nothing gets zeros. `bias` is
    added to the scores: (H, T, S) for the longest rows, or (B, H, T, S).
    """
    mask = MaskSpec(causal, window, None if bias is None else bias.to(q.dtype))
    backend = layout.backend or fastest(q, layout, dropout, bias)
    if dropout and backend != "sdpa":
        raise BadInput(f"attention back-end {backend!r} has no dropout; choose 'sdpa' or set attention dropout to 0")
    if keys is not None and (causal or window is not None):
        raise BadInput("causal attention and windows are for a sequence that attends to itself; give no other keys")
    if keys is not None and type(keys) is not type(layout):
        raise BadInput("queries and keys must be laid out alike, both packed or both padded")
    match layout, keys or layout:
        case Packed(), Packed() as key_layout:
            if backend == "varlen":
                return _varlen(q, k, v, layout, key_layout, mask)
            if backend == "sdpa" and not q.is_cuda:
                return _sdpa_by_runs(q, k, v, layout, key_layout, mask, dropout)
            # a GPU is quicker with one call on a padded rectangle than with many small ones
            return _by_padding(q, k, v, layout, key_layout, mask, dropout, backend)
        case Padded(), Padded() as key_layout if backend != "varlen":
            return _padded(q, k, v, layout, key_layout, mask, dropout, backend)
        case _:
            raise BadInput(f"attention back-end {backend!r} needs a packed layout; pack first or choose 'sdpa'")


def fastest(q: Tensor, layout: Layout, dropout: float, bias: Tensor | None = None) -> Backend:
    """Choose the fastest back-end that can do this call."""
    # the variable-length kernel exists for half precision on CUDA only, and has no dropout and no bias
    half = q.dtype in (torch.bfloat16, torch.float16)
    fits = isinstance(layout, Packed) and q.is_cuda and half and not dropout and bias is None
    return "varlen" if fits else "sdpa"


def _varlen(q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, mask: MaskSpec) -> Tensor:
    # here, because it brings torch's compiler with it, which takes two seconds to import
    from torch.nn.attention.varlen import varlen_attn

    if mask.bias is not None:
        raise BadInput("attention back-end 'varlen' has no bias; choose 'sdpa'")
    reach = -1 if mask.window is None else mask.window
    sides = (reach, 0 if mask.causal else reach)
    out = varlen_attn(q, k, v, layout.offsets, keys.offsets, layout.max_length, keys.max_length, window_size=sides)
    assert isinstance(out, Tensor)  # noqa: S101  a tuple only when auxiliary results are asked for
    return out


def _sdpa_by_runs(
    q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, mask: MaskSpec, dropout: float
) -> Tensor:
    """Neighbouring sequences of equal length share one call, on views: no padding, no copy."""
    parts = []
    for queries, seen, count, (length, key_length) in _runs(layout, keys):
        rq = q[queries].unflatten(0, (count, length)).transpose(1, 2)  # (R, H, T, K)
        rk, rv = (x[seen].unflatten(0, (count, key_length)).transpose(1, 2) for x in (k, v))  # (R, H, S, K)
        allowed, plain = run_mask(length, key_length, mask, q.device)
        out = F.scaled_dot_product_attention(rq, rk, rv, attn_mask=allowed, dropout_p=dropout, is_causal=plain)
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts) if parts else torch.zeros_like(q)


def _runs(layout: Packed, keys: Packed) -> list[tuple[slice, slice, int, tuple[int, int]]]:
    """Neighbours alike in queries and keys: their queries, their keys, how many, and the two lengths."""
    if keys is layout:
        own = [(slice(start, start + count * length), count, length) for start, count, length in layout.runs]
        return [(tokens, tokens, count, (length, length)) for tokens, count, length in own]
    runs, start, begin = [], 0, 0
    for (length, seen), group in groupby(zip(layout.lengths, keys.lengths, strict=True)):
        count = len(list(group))
        end, until = start + count * length, begin + count * seen
        if length:
            runs.append((slice(start, end), slice(begin, until), count, (length, seen)))
        start, begin = end, until
    return runs


def _by_padding(
    q: Tensor, k: Tensor, v: Tensor, layout: Packed, keys: Packed, mask: MaskSpec, dropout: float, backend: Backend
) -> Tensor:
    (q, mine), (k, theirs), (v, _) = layout.pad(q), keys.pad(k), keys.pad(v)
    return _padded(q, k, v, mine, theirs, mask, dropout, backend).flatten(0, 1)[layout.places]


def _padded(
    q: Tensor, k: Tensor, v: Tensor, layout: Padded, keys: Padded, mask: MaskSpec, dropout: float, backend: Backend
) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    allowed, plain = padded_mask(layout, keys, mask, q.device)
    if backend == "explicit":
        out, _ = scaled_dot_product(q, k, v, causal_mask(layout.max_length, q.device) if plain else allowed)
    else:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=plain)
    return out.transpose(1, 2)


class MultiHeadAttention(nn.Module):
    """Attention of a text to itself by H heads side by side, … × (H·K), times the output matrix, back to … × D.

    Queries, keys and values come out of one matrix product. `head_width` may differ from width / heads; `scaled=False`
    leaves out the division by √K, as T5 does; `window` limits how far a token attends.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        head_width: int | None = None,
        bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        window: int | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__()
        inner = inner_width(width, heads, head_width)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * inner, bias=bias)
        self.rotary = rotary
        self.rescale = 1.0 if scaled else (inner // heads) ** 0.5  # what `attend` divides by
        self.attend = Attend(window, dropout, causal=causal)
        self.output = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor, layout: Layout, cache: LayerCache | None = None, bias: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D); with a `cache`, x is appended to it and attends to all of it. `bias`: see `attend`."""
        q, k, v = linear(self.qkv, x).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (…, H, K) each
        if self.rotary is not None:
            q, k = self.rotary(q, k, layout.positions)
        if self.rescale != 1.0:
            q = q * self.rescale
        keys = None
        if cache is not None:
            k, v, keys = cache.extend(k, v, layout)
        mixed: Tensor = linear(self.output, self.attend(q, k, v, layout, keys, bias).flatten(-2))
        return mixed

    @property
    def longest(self) -> float:
        """The longest sequence that needs no mask."""
        return math.inf if self.attend.window is None else self.attend.window + 1

    def can_add_to(self, longest: int) -> bool:
        """Whether `add_to` gives the same: scores are scaled, and sequences up to this length need no mask."""
        return self.rescale == 1.0 and not self.attend.causal and longest <= self.longest

    def add_to(self, residual: Tensor, x: Tensor, layout: Packed) -> Tensor:
        """residual + self(x, layout) in as few calls as there can be, without a mask: (N, D) -> (N, D)."""
        qkv, mixed = linear(self.qkv, x), []
        for start, count, length in layout.runs:
            run = qkv if count * length == len(qkv) else qkv[start : start + count * length]
            run = run.view(count, length, 3 * self.heads, -1)  # (R, T, 3 H, K)
            if self.rotary is not None:
                self.rotary.rotate_(run[:, :, : 2 * self.heads])
            q, k, v = run.unflatten(2, (3, self.heads)).permute(2, 0, 3, 1, 4)  # (R, H, T, K) each
            mixed.append(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(count * length, -1))
        return linear_add(residual, self.output, mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def capture(self) -> Sum:
        """`add_to` for a single text, of its residual and of itself, with the weights as they are now."""
        qkv, add, heads, rotary = bound(self.qkv), bound_add(self.output), self.heads, self.rotary

        def add_to(residual: Tensor, x: Tensor) -> Tensor:
            run, length = qkv(x), x.shape[0]
            if rotary is not None:
                rotary.rotate_(run.view(length, 3 * heads, -1)[:, : 2 * heads])
            q, k, v = run.view(length, 3, heads, -1).permute(1, 2, 0, 3).unbind()  # (H, T, K) each
            if length > _SHORT:
                mixed = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
            else:
                # torch's softmax is quicker over columns where these are shorter than its vectors
                rows, columns = (q, k) if length >= _VECTOR else (k, q)
                scores = torch.baddbmm(_NONE, rows, columns.mT, beta=0, alpha=q.shape[-1] ** -0.5)
                weights = scores.softmax(-1) if rows is q else scores.softmax(1).mT  # (H, T, S)
                mixed = torch.bmm(weights, v)
            return add(residual, mixed.transpose(0, 1).reshape(length, -1))

        return add_to


_SHORT = 128  # tokens up to which two products and a softmax are quicker than the fused kernel, most of all on threads
_VECTOR = 16  # floats
_NONE = torch.zeros(1, 1, 1)


def inner_width(width: int, heads: int, head_width: int | None) -> int:
    """H·K: the model's width, or that of heads of another width."""
    if head_width is None:
        check_heads(width, heads)
        return width
    return heads * head_width
