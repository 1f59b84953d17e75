"""Muon (Jordan et al. 2024), with all matrices of one shape made orthogonal together."""

# G matrices of one shape · R rows · C columns

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Muon


class BatchedMuon(Muon):
    """torch's optimiser and its numbers; a GPU gets a few large products a step instead of hundreds of small ones."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take a step; parts of matrices, as FSDP leaves them to each rank, go torch's own way."""
        if any(isinstance(weight, DTensor) for group in self.param_groups for weight in group["params"]):
            super().step(closure)
            return
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    alike.setdefault(weight.shape, []).append(weight)
            for weights in alike.values():
                self._update(weights, group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        moments = [self.state[weight]["momentum_buffer"] for weight in weights]
        gradient = torch.stack([weight.grad for weight in weights if weight.grad is not None])
        old, moment = torch.stack(weights), torch.stack(moments)
        following = moment.lerp(gradient, 1 - group["momentum"])
        ahead = gradient.lerp(following, group["momentum"])  # Nesterov's look ahead
        turned = orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
        # updates of the size AdamW's have (Liu et al. 2025)
        rate = group["lr"] * 0.2 * math.sqrt(max(weights[0].shape))
        new = (old * (1 - group["lr"] * group["weight_decay"])).add_(turned, alpha=-rate)
        bad = getattr(self, "found_inf", None)  # as torch's other optimisers are told of a step to leave out
        if bad is not None:
            new, following = torch.where(bad > 0, old, new), torch.where(bad > 0, moment, following)
        torch._foreach_copy_(weights, new.unbind())
        torch._foreach_copy_(moments, following.unbind())


def orthogonal(x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Bring all singular values of each matrix near 1, by Newton and Schulz's iteration: (G, R, C), in bf16."""
    a, b, c = coefficients
    tall = x.shape[1] > x.shape[2]
    x = x.bfloat16()
    x = x.mT if tall else x
    x = x / x.flatten(1).norm(dim=1).clamp(min=eps)[:, None, None]
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
