"""Linear maps by the fastest kernel there is (oneDNN, fused with GELU and residual), and when a block may use it."""

# … is (N) packed or (B, T) padded

from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.nn.layout import Layout, Packed
from clearhead.nn.lora import LoRA
from clearhead.nn.quantisation import QuantisedLinear

Act = Literal["none", "gelu"]

# oneDNN's product adds the bias and applies GELU on the way out, and beats the default one on a CPU; it knows no
# gradients. The operators are torch's own, but not public, so that a torch without them must do.
_ONEDNN = torch.backends.mkldnn.is_available()
_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if _ONEDNN else None
# by their full names: to choose between two operators of one name takes longer than to call one
_FUSED = getattr(_LINEAR, "default", None)
_SUMMED = getattr(_LINEAR, "binary", None)
_REORDER = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None) if _ONEDNN else None


def linear(layer: nn.Module, x: Tensor, act: Act = "none") -> Tensor:
    """Apply a linear layer, then perhaps GELU: (…, in) -> (…, out)."""
    if _FUSED is not None and type(layer) in _MAPS and can_use_onednn(x):
        (matrix,), bias = _matrices(layer)
        return _FUSED(x, matrix, bias, act, [], "none" if act == "gelu" else "")
    out = _apply(layer, x)
    if act == "gelu" and isinstance(layer, QuantisedLinear):
        return torch.ops.aten.gelu_(out)  # in place: a second array of this size costs as much as the GELU
    return F.gelu(out) if act == "gelu" else out


def gated(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply a linear layer; GELU of its outputs' first half times the second: (…, in) -> (…, out / 2)."""
    if _FUSED is not None and type(layer) in _MAPS and can_use_onednn(x):
        # two products, the first with GELU inside, and both results are contiguous
        (value_part, gate_part), both = _matrices(layer, parts=2)
        bias = (None, None) if both is None else both.chunk(2)
        value: Tensor = _FUSED(x, value_part, bias[0], "gelu", [], "none")
        return value.mul_(_FUSED(x, gate_part, bias[1], "none", [], ""))
    if isinstance(layer, QuantisedLinear):
        return layer.gated(x)
    value, gate = _apply(layer, x).chunk(2, -1)
    return F.gelu(value) * gate


def linear_add(residual: Tensor, layer: nn.Module, x: Tensor) -> Tensor:
    """Apply a linear layer and add the result to the residual, (…, out): (…, in) -> (…, out)."""
    if _SUMMED is not None and type(layer) in _MAPS and can_use_onednn(x):
        (matrix,), bias = _matrices(layer)
        return _SUMMED(x, residual, matrix, bias, "add")
    if isinstance(layer, QuantisedLinear):
        return layer.add_to(residual, x)
    return residual + linear(layer, x)


def _apply(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x); where nothing is learnt, the correction of a LoRA is in the matrix."""
    if type(layer) is LoRA and not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
        (matrix,), bias = _matrices(layer, ordered=False)
        return F.linear(x, matrix, bias)
    out: Tensor = layer(x)
    return out


def project(owner: nn.Module, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply with a matrix of the owner that is no layer, such as a token embedding: (…, in) -> (…, out)."""
    if _FUSED is not None and can_use_onednn(x):
        (matrix,) = _reordered(owner, weight)
        return _FUSED(x, matrix, bias, "none", [], "")
    return F.linear(x, weight, bias)


def can_use_onednn(x: Tensor) -> bool:
    """Whether oneDNN may compute this now: inference in float32 on a CPU."""
    # compiled code fuses by itself, and cannot even ask for the mode: this question comes first
    free = not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
    return free and x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0


# what has a matrix and perhaps a bias; type(…) in: any other wrapped layer must be called as it is
_MAPS = (nn.Linear, LoRA)


class _Kept(NamedTuple):
    """A matrix as it is multiplied with, in parts, and the state of the weights that it was made of."""

    sources: tuple[Tensor, ...]  # held, so that no other weights can come to lie at the same address
    state: tuple[int, ...]
    parts: tuple[Tensor, ...]


# Reordering takes as long as multiplying twenty tokens, so it is done once. The copies cost as much memory as the
# linear layers; they are kept beside the layers, not in them, because torch cannot copy or save a reordered tensor.
_KEPT: WeakKeyDictionary[nn.Module, _Kept] = WeakKeyDictionary()


def _matrices(layer: Any, parts: int = 1, *, ordered: bool = True) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """The layer's matrix, whole or cut into parts by rows, and its bias; a LoRA's matrix has the correction in it."""
    if type(layer) is nn.Linear:
        return _reordered(layer, layer.weight, parts), layer.bias
    base, up, down = layer.base.weight, layer.up, layer.down
    if base.is_inference() or up.is_inference():
        return layer.weight.chunk(parts), layer.base.bias
    state = (parts, ordered, base.data_ptr(), base._version, up.data_ptr(), up._version, down.data_ptr(), down._version)
    kept = _KEPT.get(layer)
    if kept is None or kept.state != state:
        kept = _keep(layer, (base, up, down), state, layer.weight, parts, ordered=ordered)
    return kept.parts, layer.base.bias


def _reordered(owner: nn.Module, weight: Tensor, parts: int = 1) -> tuple[Tensor, ...]:
    """A matrix in oneDNN's layout, whole or cut into parts by rows; anew when the weights have changed."""
    if _REORDER is None or weight.is_inference():  # which has no version to tell a change by
        return weight.chunk(parts)
    state = (parts, True, weight.data_ptr(), weight._version)
    kept = _KEPT.get(owner)
    if kept is None or kept.state != state:
        kept = _keep(owner, (weight,), state, weight, parts, ordered=True)
    return kept.parts


def _keep(
    owner: nn.Module, sources: tuple[Tensor, ...], state: tuple[int, ...], matrix: Tensor, parts: int, *, ordered: bool
) -> _Kept:
    made = matrix.detach().chunk(parts)
    if ordered and _REORDER is not None:
        made = tuple(map(_REORDER, made))
    _KEPT[owner] = kept = _Kept(tuple(one.detach() for one in sources), state, made)
    return kept


def forget(module: nn.Module) -> None:
    """Give back the memory of the matrices that are kept for a module; its next use makes them anew."""
    for part in module.modules():
        _KEPT.pop(part, None)


def can_fuse(block: Any, x: Tensor, layout: Layout) -> bool:
    """Whether both parts of a block can do the residual sum in their last product, and no hook watches them."""
    attention, feedforward = block.attention, block.feedforward
    return (
        can_use_onednn(x)
        and type(layout) is Packed
        and layout.backend is None
        and not block.training
        and hasattr(attention, "add_to")
        and attention.can_add_to(layout.max_length)
        and hasattr(feedforward, "add_to")
        and not any(map(_has_hooks, (attention, attention.attend, feedforward, block.norm_1, block.norm_2)))
        and (attention.rotary is None or not _has_hooks(attention.rotary))
    )


def normalised(norm: Any, x: Tensor) -> Tensor:
    """norm(x), past the module's own wrappers where it is a LayerNorm."""
    if type(norm) is nn.LayerNorm:
        return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    result: Tensor = norm(x)
    return result


def _has_hooks(part: nn.Module) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks)
