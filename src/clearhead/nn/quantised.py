"""A linear layer in 8 bits for inference on a CPU: a scale for each output, and for each token as it comes."""

# N tokens · … is (N) packed or (B, T) padded

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, require

# torch's own operators for oneDNN, but not public, so that a torch without them must do
_PREPACK: Any = getattr(torch.ops.onednn, "qlinear_prepack", None)
_MULTIPLY: Any = getattr(torch.ops.onednn, "qlinear_pointwise", None)
_VNNI = getattr(torch.cpu, "_is_vnni_supported", lambda: False)

_STEPS = 127
_MIDDLE = 128  # of unsigned bytes: the processor multiplies unsigned by signed ones


def available() -> bool:
    """Whether this processor multiplies 8-bit numbers quickly and exactly (VNNI), and torch can ask it to."""
    return torch.backends.mkldnn.is_available() and None not in (_PREPACK, _MULTIPLY) and bool(_VNNI())


class QuantisedLinear(nn.Module):
    """Stands for a Linear of the same shape, rounded to 8 bits; it cannot be trained, saved or moved to a GPU."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        require(available(), "int8 needs an x86 processor with VNNI; use the model in fp32", BadInput)
        self.out_features, self.in_features = weight.shape
        weight = weight.detach().float()
        scales = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / _STEPS  # (out,)
        signed = (weight / scales.unsqueeze(-1)).round().to(torch.int8)
        # plain attributes, because a module moves and saves its buffers, which packed tensors cannot do
        self._packed = _PREPACK(signed, None)
        self._scales = scales / _STEPS  # a token's largest value is 127 steps
        self._zeros = torch.zeros(self.out_features, dtype=torch.int32)
        self._bias = torch.zeros(self.out_features) if bias is None else bias.detach().float()

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        require(not x.requires_grad, "an int8 layer has no gradients; use the model in fp32", BadInput)
        require(x.device.type == "cpu", f"an int8 layer computes on the CPU, not on {x.device}", BadInput)
        if not x.numel():
            return x.new_zeros(*x.shape[:-1], self.out_features)
        tokens = x.reshape(-1, self.in_features).float()
        # two looks and no copy are quicker than abs().amax()
        largest = torch.maximum(tokens.amax(-1, keepdim=True), -tokens.amin(-1, keepdim=True))
        largest.clamp_(min=torch.finfo(torch.float32).tiny)
        # float to int8 is many times quicker than to uint8; the flipped sign bit is + 128
        signed = (tokens * (_STEPS / largest)).round_().to(torch.int8)
        unsigned = signed.view(torch.uint8).bitwise_xor_(_MIDDLE)
        sums = _MULTIPLY(
            unsigned, 1.0, _MIDDLE, self._packed, self._scales, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        torch.addcmul(self._bias, sums, largest, out=sums)
        return sums.view(*x.shape[:-1], self.out_features).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the shape as Linear does."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


def is_int8(module: nn.Module) -> bool:
    """Whether a part of the module multiplies in 8 bits."""
    return any(isinstance(part, QuantisedLinear) for part in module.modules())
