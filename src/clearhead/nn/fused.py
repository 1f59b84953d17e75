"""Linear maps by the fastest kernel there is (oneDNN, fused with GELU and residual), and when a block may use it.

For one text alone, whose products are short, the blocks of an encoder are captured: see `captured`.
"""

# … is (N) packed or (B, T) padded

from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.nn.layout import Layout, Packed
from clearhead.nn.lora import LoRA
from clearhead.nn.quantisation import CalibratedLinear, QuantisedLinear

Act = Literal["none", "gelu"]
Map = Callable[[Tensor], Tensor]
Sum = Callable[[Tensor, Tensor], Tensor]  # of a residual and of what is mapped and added to it

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
        _CAPTURED.pop(part, None)


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


# The rest is for one text alone. To look up each weight, to ask whether it has changed and who watches, and to call the
# modules takes as long as a tenth of a short text's products: it is asked once for all blocks of an encoder, which are
# functions by then that hold their weights.


def bound(layer: nn.Module, act: Act = "none") -> Map:
    """`linear` with the layer's weights as they are now: (N, in) -> (N, out) in float32 on a CPU."""
    if _FUSED is not None and type(layer) in _MAPS:
        (matrix,), bias = _matrices(layer)
        multiply, after = getattr(_FUSED, "_op", _FUSED), "none" if act == "gelu" else ""
        return lambda x: multiply(x, matrix, bias, act, [], after)
    if isinstance(layer, QuantisedLinear | CalibratedLinear):
        multiply = layer.map_tokens
        return multiply if act == "none" else lambda x: torch.ops.aten.gelu_(multiply(x))
    return lambda x: linear(layer, x, act)


def bound_gated(layer: nn.Module) -> Map:
    """`gated` in the same way."""
    if _FUSED is not None and type(layer) in _MAPS:
        parts, both = _matrices(layer, parts=2)
        multiply = getattr(_FUSED, "_op", _FUSED)
        biases = (None, None) if both is None else both.chunk(2)
        (value, gate), (first, second) = parts, biases
        return lambda x: multiply(x, value, first, "gelu", [], "none").mul_(multiply(x, gate, second, "none", [], ""))
    return lambda x: gated(layer, x)


def bound_add(layer: nn.Module) -> Sum:
    """`linear_add` in the same way."""
    if _SUMMED is not None and type(layer) in _MAPS:
        (matrix,), bias = _matrices(layer)
        multiply = getattr(_SUMMED, "_op", _SUMMED)
        return lambda residual, x: multiply(x, residual, matrix, bias, "add")
    if isinstance(layer, CalibratedLinear):
        return lambda residual, x: layer.map_tokens(x).add_(residual)
    return lambda residual, x: linear_add(residual, layer, x)


def bound_norm(norm: Any) -> Map:
    """`normalised` in the same way."""
    if type(norm) is nn.LayerNorm:
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return norm if type(norm) is not nn.Identity else lambda x: x


class _Captured(NamedTuple):
    """An encoder's parts as functions, and all by which a change would show. It does not hold the encoder."""

    embed: Callable[[Tensor, Tensor | None], Tensor] | None  # of ids and segments
    blocks: list[Map]
    longest: float  # the tokens of which each sees all others
    parts: list[nn.Module]
    inner: list[dict[str, Any]]  # the parts and weights that each part has
    held: list[Any]  # all that these are
    weights: list[Tensor]
    versions: list[int]
    places: list[int]  # where the weights lie in memory
    hooks: list[dict[int, Any]]

    def holds(self) -> bool:
        """Whether nothing was exchanged or changed, nothing is to be trained and nobody watches."""
        return not (
            any(self.hooks)
            or any(map(_TRAINING, self.parts))
            or list(map(id, chain.from_iterable(map(dict.values, self.inner)))) != self.held
            or list(map(_VERSION, self.weights)) != self.versions
            or list(map(Tensor.data_ptr, self.weights)) != self.places
        )


_TRAINING, _VERSION = attrgetter("training"), attrgetter("_version")
_CAPTURED: WeakKeyDictionary[nn.Module, _Captured] = WeakKeyDictionary()


def captured(encoder: Any, layout: Layout) -> _Captured | None:
    """The embeddings and blocks of an encoder as functions for a single text; None: call the modules.

    The functions are made anew when a weight or a part has changed. Hooks, training, masks and anything that is not
    float32 on a CPU go the usual way.
    """
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return None
    if type(layout) is not Packed or len(layout.lengths) != 1 or layout.backend is not None or not layout.max_length:
        return None
    found = _CAPTURED.get(encoder)
    if found is None or not found.holds():
        _CAPTURED.pop(encoder, None)
        if (found := _capture(encoder)) is None:
            return None
        _CAPTURED[encoder] = found
    return found if layout.max_length <= found.longest else None


def _capture(encoder: Any) -> _Captured | None:
    parts = [part for part in encoder.modules() if part is not encoder]
    hooks = [every for part in parts for every in (part._forward_hooks, part._forward_pre_hooks)]
    hooks += [nn.modules.module._global_forward_hooks, nn.modules.module._global_forward_pre_hooks]
    inner = [every for part in (encoder, *parts) for every in (part._modules, part._parameters, part._buffers)]
    weights = list(chain(encoder.parameters(), encoder.buffers()))
    blocks = list(encoder.blocks)
    if (
        any(hooks)
        or any(part.training for part in parts)
        or any(one.is_inference() for one in weights)  # which have no version to tell a change by
        or any(one.dtype != torch.float32 or one.device.type != "cpu" for one in weights)
        or not all(hasattr(block, "capture") and block.can_capture() for block in blocks)
    ):
        return None
    held = [id(one) for one in chain.from_iterable(map(dict.values, inner))]
    versions, places = [one._version for one in weights], [one.data_ptr() for one in weights]
    longest = min((block.attention.longest for block in blocks), default=0)
    made = [block.capture() for block in blocks]
    embed = encoder.embeddings.capture() if hasattr(encoder.embeddings, "capture") else None
    return _Captured(embed, made, longest, parts, inner, held, weights, versions, places, hooks)
