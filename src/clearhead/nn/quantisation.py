"""Linear layers in 8 bits for inference on a CPU: weights with a scale for each output, activations in uint8.

`QuantisedLinear` is dynamic: each token has its own step. `CalibratedLinear` and `CalibratedFeedForward` are static:
the steps are known from a sample.
"""

# N tokens · D width · F feed-forward width; … is (N) packed or (B, T) padded

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, require

# torch's own operators for oneDNN, but not public, so that a torch without them must do
_PREPACK: Any = getattr(torch.ops.onednn, "qlinear_prepack", None)
_MULTIPLY: Any = getattr(getattr(torch.ops.onednn, "qlinear_pointwise", None), "default", None)
_VNNI = getattr(torch.cpu, "_is_vnni_supported", lambda: False)

# FBGEMM's product rounds its inputs itself and begins in half of oneDNN's time, which counts where tokens are few. It
# wants a matrix of its own order, which is made of torch's old quantised tensors: gone some day, so that all must do
# without it.
_PACK_FEW: Any = getattr(torch.ops.quantized, "linear_prepack", None)
_MULTIPLY_FEW: Any = getattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32", None)
_QUANTISED_TENSOR: Any = getattr(torch, "_make_per_channel_quantized_tensor", None)
_FEW = 128  # tokens

_FLOATS = (1.0, 0, torch.float32)  # the step, zero point and type of a product that is not quantised again
_STEPS = 127
_LEVELS = 255
_MIDDLE = 128  # zero point of uint8 inputs: the processor multiplies unsigned by signed bytes
_TINY = torch.finfo(torch.float32).tiny
_SMALL = 1e-5  # a feature that hardly moved on the sample gets no finer steps than this asks for
# A few inner features reach many times as far as all others, which would have to share their coarse step.
_OUTLIERS = 16
_ROOM = 1.25  # for values that go beyond what the sample showed


class Weights(NamedTuple):
    """The weights of a linear layer."""

    matrix: Tensor  # (out, in)
    bias: Tensor | None  # (out,)


class Range(NamedTuple):
    """The lowest and the highest value that each feature had on a sample."""

    low: Tensor  # (in,)
    high: Tensor  # (in,)


def available() -> bool:
    """Whether this processor multiplies 8-bit numbers quickly and exactly (VNNI), and torch can ask it to."""
    return torch.backends.mkldnn.is_available() and None not in (_PREPACK, _MULTIPLY) and bool(_VNNI())


class _Matrix:
    """A matrix in 8 bits, with a scale for each output. No module: packed tensors cannot be moved or saved.

    A pickle, or a copy, is made of the bytes, which the matrix gives back when it is multiplied with the identity.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        require(available(), "int8 needs an x86 processor with VNNI; use the model in fp32", BadInput)
        weight = weight.detach().float()
        self.scales = weight.abs().amax(1).clamp(min=_TINY) / _STEPS  # (out,)
        self.width = weight.shape[1]
        self.packed = _PREPACK((weight / self.scales.unsqueeze(-1)).round().to(torch.int8), None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = torch.zeros(len(weight)) if bias is None else bias.detach().float()
        self._few: dict[bool, Any] = {}

    def __getstate__(self) -> tuple[Tensor, Tensor, Tensor]:
        with torch.inference_mode():
            columns = self(torch.eye(self.width, dtype=torch.uint8), zero=0, bias=False) / self.scales
        return columns.T.round().to(torch.int8).contiguous().clone(), self.scales, self.bias

    def __setstate__(self, state: tuple[Tensor, Tensor, Tensor]) -> None:
        weight, self.scales, self.bias = state
        self.width = weight.shape[1]
        self.packed = _PREPACK(weight, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self._few = {}

    def for_few(self, tokens: Tensor, *, bias: bool = True) -> Callable[..., Tensor] | None:
        """The product that suits few tokens, of floats (N, in), their step and zero point; None where there is none."""
        if tokens.shape[0] > _FEW:
            return None
        if bias not in self._few:
            self._few[bias] = self._pack_few(bias=bias)
        return self._few[bias]

    def _pack_few(self, *, bias: bool) -> Callable[..., Tensor] | None:
        known = None not in (_PACK_FEW, _MULTIPLY_FEW, _QUANTISED_TENSOR)
        if not known or torch.backends.quantized.engine not in ("x86", "fbgemm"):
            return None
        weight, scales, added = self.__getstate__()
        with torch.inference_mode(mode=False), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that quantised tensors will be gone
            zeros = torch.zeros(len(scales), dtype=torch.int64)
            tensor = _QUANTISED_TENSOR(weight.clone(), scales.double(), zeros, 0)
            packed = _PACK_FEW(tensor, added if bias else None)
        multiply = _MULTIPLY_FEW.default
        multiply = getattr(multiply, "_op", multiply)  # past a wrapper of Python's
        return lambda tokens, step=1.0, zero=_MIDDLE: multiply(tokens, step, zero, packed)

    def __call__(
        self,
        steps: Tensor,
        step: float = 1.0,
        zero: int = _MIDDLE,
        *,
        bias: bool = True,
        gelu: bool = False,
        out: tuple[float, int, torch.dtype] = _FLOATS,
    ) -> Tensor:
        """Inputs uint8 (N, in) of this step and zero point -> (N, out), by `out` quantised again."""
        act: tuple[Any, ...] = ("gelu", [], "none") if gelu else ("none", [], "")
        added = self.bias if bias else None
        return _MULTIPLY(steps, step, zero, self.packed, self.scales, self.zeros, added, *out, *act)


class _Int8(nn.Module):
    """A map of each token in 8 bits; it cannot be trained, saved or moved to a GPU."""

    out_features: int

    def __init__(self) -> None:
        super().__init__()
        self.training = False  # else whoever runs it would have to switch it off each time

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        shape = *x.shape[:-1], self.out_features
        return self.map_tokens(self._tokens(x)).view(shape).to(x.dtype) if x.numel() else x.new_zeros(shape)

    def _tokens(self, x: Tensor) -> Tensor:
        """(…, in) -> (N, in), floats that can be rounded."""
        require(not x.requires_grad, "an int8 layer has no gradients; use the model in fp32", BadInput)
        require(x.device.type == "cpu", f"an int8 layer computes on the CPU, not on {x.device}", BadInput)
        return x.reshape(-1, x.shape[-1]).float()

    def map_tokens(self, tokens: Tensor) -> Tensor:
        """(N, in) -> (N, out), of floats on the CPU, for at least one token."""
        raise NotImplementedError


class QuantisedLinear(_Int8):
    """Stands for a Linear of the same shape, rounded to 8 bits; a gated feed-forward asks for its two `parts`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, parts: int = 1) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach().float()
        self._matrices = [_Matrix(part, None) for part in weight.chunk(parts)]

    def map_tokens(self, tokens: Tensor) -> Tensor:
        """(N, in) -> (N, out)."""
        sums, scale = self._sums(tokens)
        whole = sums[0] if len(sums) == 1 else torch.cat(sums, -1)
        return whole.mul_(scale) if self.bias is None else torch.addcmul(self.bias, whole, scale, out=whole)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x), in one pass where there is no bias."""
        if self.bias is not None or len(self._matrices) > 1 or not x.numel():
            return residual + self(x)
        (product,), scale = self._sums(self._tokens(x))
        return torch.addcmul(residual.reshape(-1, self.out_features), product, scale).view_as(residual)

    def gated(self, x: Tensor) -> Tensor:
        """GELU of the outputs' first half times the second: (…, in) -> (…, out / 2)."""
        if len(self._matrices) != 2 or not x.numel():
            value, gate = self(x).chunk(2, -1)
            return torch.ops.aten.gelu_(value).mul_(gate)
        sums, scale = self._sums(self._tokens(x))
        value, gate = (product.mul_(scale) for product in sums)
        if self.bias is not None:
            value, gate = (part.add_(bias) for part, bias in zip((value, gate), self.bias.chunk(2), strict=True))
        # two results, each contiguous, and in place: strided, the GELU alone takes as long as a fourth of the product
        return torch.ops.aten.gelu_(value).mul_(gate).view(*x.shape[:-1], -1)

    def _sums(self, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
        """The products of tokens in steps of their own with each part, (N, out) each, and the size of the steps."""
        # two passes and no copy are quicker than abs().amax()
        largest = torch.maximum(tokens.amax(-1, keepdim=True), -tokens.amin(-1, keepdim=True)).clamp_(min=_TINY)
        steps, scale = tokens * (_STEPS / largest), largest.div_(_STEPS)  # (N, in), (N, 1)
        found = [matrix.for_few(tokens, bias=False) for matrix in self._matrices]
        quick = [multiply for multiply in found if multiply is not None]
        if len(quick) == len(found):
            return [multiply(steps) for multiply in quick], scale
        rounded = _bytes(steps.round_())
        return [matrix(rounded, bias=False) for matrix in self._matrices], scale

    def extra_repr(self) -> str:
        """Show the shape as Linear does."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class _Quantiser:
    """Static quantisation of tokens, a step for each feature, and the weights scaled to match.

    Wide features get wide steps and their weights fine ones (Xiao et al. 2022, SmoothQuant, with strength 1/2).
    """

    def __init__(self, weight: Tensor, seen: Range) -> None:
        reach = torch.maximum(seen.high, -seen.low).clamp(min=_SMALL) * _ROOM
        smooth = (reach / weight.abs().amax(0).clamp(min=_SMALL)).sqrt()
        sizes = smooth * (reach / smooth).max() / _STEPS  # (in,)
        self._weight: Tensor | None = weight * sizes
        self._per_unit = 1 / sizes

    def take_weight(self) -> Tensor:
        """The scaled weights, which are not kept: they take four times the room of the bytes made of them."""
        weight, self._weight = self._weight, None
        assert weight is not None  # noqa: S101  it is taken once
        return weight

    def __call__(self, tokens: Tensor) -> Tensor:
        """(N, in) -> uint8 (N, in)."""
        return _bytes(self.scaled(tokens).round_().clamp_(-_MIDDLE, _STEPS))

    def scaled(self, tokens: Tensor) -> Tensor:
        """(N, in) in steps, neither rounded nor clamped."""
        return tokens * self._per_unit


class CalibratedLinear(_Int8):
    """Stands for a Linear whose inputs have been seen on a sample; beyond that range they are clamped."""

    def __init__(self, weight: Tensor, bias: Tensor | None, seen: Range) -> None:
        super().__init__()
        self.out_features = len(weight)
        self._quantise = _Quantiser(weight.detach().float(), seen)
        self._matrix = _Matrix(self._quantise.take_weight(), bias)

    def map_tokens(self, tokens: Tensor) -> Tensor:
        """(N, in) -> (N, out)."""
        if (multiply := self._matrix.for_few(tokens)) is not None:
            return multiply(self._quantise.scaled(tokens))
        return self._matrix(self._quantise(tokens))


class CalibratedFeedForward(_Int8):
    """Stands for a FeedForward with GELU: the activations are uint8 from the first product to the second."""

    def __init__(self, up: Weights, down: Weights, seen: Range, inner: Range) -> None:
        super().__init__()
        up_weight, down_weight = up.matrix.detach().float(), down.matrix.detach().float()
        self.out_features = len(down_weight)
        self._quantise = _Quantiser(up_weight, seen)
        scaled = self._quantise.take_weight()
        self._up = _Matrix(scaled, up.bias)
        far = inner.high.topk(min(_OUTLIERS, len(inner.high))).indices
        self._far = far
        self._far_up = _Matrix(scaled[far], None if up.bias is None else up.bias[far])
        self._far_down = down_weight[:, far].T.contiguous()
        near = torch.ones_like(inner.high).index_fill_(0, far, 0.0)
        self._down = _Matrix(down_weight * near, down.bias)
        lowest, highest = min(float((inner.low * near).min()), 0.0), max(float((inner.high * near).max()), 0.0)
        self._step = max(highest - lowest, _SMALL) * _ROOM / _LEVELS
        self._zero = round(-lowest / self._step)

    def map_tokens(self, tokens: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        up, down = self._up.for_few(tokens), self._down.for_few(tokens)
        if up is not None and down is not None:
            values = torch.ops.aten.gelu_(up(self._quantise.scaled(tokens)))
            few: Tensor = down(values, self._step, self._zero)
            return few.addmm_(values.index_select(1, self._far), self._far_down)
        steps = self._quantise(tokens)
        inner = self._up(steps, gelu=True, out=(self._step, self._zero, torch.uint8))
        out = self._down(inner, self._step, self._zero)
        return out.addmm_(self._far_up(steps, gelu=True), self._far_down)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + self(x)."""
        return self(x).add_(residual)

    def capture(self) -> Callable[[Tensor, Tensor], Tensor]:
        """`add_to` for a single text on the CPU."""
        return lambda residual, x: self.map_tokens(x).add_(residual)


def is_int8(module: nn.Module) -> bool:
    """Whether a part of the module multiplies in 8 bits."""
    return any(isinstance(part, _Int8) for part in module.modules())


def _bytes(whole: Tensor) -> Tensor:
    """Whole numbers from -128 to 127 -> uint8 from 0 to 255."""
    # float to int8 is many times quicker than to uint8; the flipped sign bit is + 128
    return whole.to(torch.int8).view(torch.uint8).bitwise_xor_(_MIDDLE)
