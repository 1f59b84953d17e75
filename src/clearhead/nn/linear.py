"""A linear map by the quickest way that the moment allows."""

# … is (N) packed or (B, T) padded

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Act = Literal["none", "gelu"]

# oneDNN's product adds the bias and bends the result on the way out, and beats the default one on a CPU; it knows no
# gradients. The operator is torch's own, but not public, so that a torch without it must do.
_FUSED = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def linear(layer: nn.Module, x: Tensor, act: Act = "none") -> Tensor:
    """Apply a linear layer, then perhaps GELU: (…, in) -> (…, out)."""
    # type(…) is: a wrapped layer (LoRA) must be called as it is
    if type(layer) is nn.Linear and _FUSED is not None and _fits(x):
        return _FUSED(x, layer.weight, layer.bias, act, [], "none" if act == "gelu" else "")
    out = layer(x)
    return F.gelu(out) if act == "gelu" else out


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply with a matrix that is no layer, such as a token table: (…, in) -> (…, out)."""
    if _FUSED is not None and _fits(x):
        return _FUSED(x, weight, None, "none", [], "")
    return F.linear(x, weight)


def _fits(x: Tensor) -> bool:
    # compiled code fuses by itself, and cannot look at the mode
    quick = not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
    return quick and x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0
