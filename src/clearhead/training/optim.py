"""AdamW, LAMB or Adafactor for everything, or Muon for the hidden matrices and AdamW for the rest."""

# G matrices of one shape · R rows · C columns

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Adafactor, AdamW, Muon, Optimizer

from clearhead.errors import BadInput, require
from clearhead.training.distributed import as_local, as_sharded, as_whole
from clearhead.training.settings import Settings


class BatchedMuon(Muon):
    """torch's optimiser and its numbers; a GPU gets a few large products a step instead of hundreds of small ones."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take a step."""
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
        own = [as_local(weight) for weight in weights]  # of matrices in shards, the rows that this rank has
        moments = [as_local(self.state[weight]["momentum_buffer"]) for weight in weights]
        gradient = torch.stack([as_local(weight.grad) for weight in weights if weight.grad is not None])
        old, moment = torch.stack(own), torch.stack(moments)
        following = moment.lerp(gradient, 1 - group["momentum"])
        ahead = gradient.lerp(following, group["momentum"]).bfloat16()  # Nesterov's look ahead
        # whole matrices are turned: torch would multiply their parts and add those up in bf16, which is another update
        whole = _whole(ahead, weights)
        turned = _part(orthogonal(whole, group["ns_coefficients"], group["ns_steps"], group["eps"]), weights)
        # updates of the size AdamW's have (Liu et al. 2025)
        rate = group["lr"] * 0.2 * math.sqrt(max(weights[0].shape))
        new = (old * (1 - group["lr"] * group["weight_decay"])).add_(turned, alpha=-rate)
        bad = getattr(self, "found_inf", None)  # as torch's other optimisers are told of a step to leave out
        if bad is not None:
            new, following = torch.where(bad > 0, old, new), torch.where(bad > 0, moment, following)
        torch._foreach_copy_(own, new.unbind())
        torch._foreach_copy_(moments, following.unbind())


def _whole(parts: Tensor, weights: list[Any]) -> Tensor:
    """Gather the rows of matrices from all ranks: (G, r, C) -> (G, R, C), as the weights are sharded."""
    if not isinstance(weights[0], DTensor):
        return parts
    like: Any = weights[0]
    shape, stride = like.shape, like.stride()
    sharded = [
        DTensor.from_local(part, like.device_mesh, like.placements, shape=shape, stride=stride) for part in parts
    ]
    return torch.stack([as_whole(one) for one in sharded])


def _part(whole: Tensor, weights: list[Any]) -> Tensor:
    """The rows of this rank, back again."""
    if not isinstance(weights[0], DTensor):
        return whole
    return torch.stack([as_local(as_sharded(weight, one)) for weight, one in zip(weights, whole, strict=True)])


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


class Lamb(Optimizer):
    """LAMB (You et al. 2019, algorithm 2): AdamW whose step has, in each matrix, the length that its weights have.

    So that very large batches may learn fast. `adapts` is off for the group of biases and norms, whose steps are
    AdamW's, as in the published code. A weight or an update of length 0 is not scaled.
    """

    def __init__(
        self,
        params: list[dict[str, Any]],
        lr: float,
        *,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float = 0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapts": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take a step, unless `found_inf` says that it is bad, as torch's other optimisers are told."""
        bad = getattr(self, "found_inf", None)
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group, bad)

    def _update(self, weight: Tensor, group: dict[str, Any], bad: Tensor | None) -> None:
        state, (first, second) = self.state[weight], group["betas"]
        if not state:
            state["step"] = torch.zeros((), device=weight.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        gradient: Any = weight.grad
        new = {
            "step": state["step"].to(weight.device) + 1,
            "exp_avg": state["exp_avg"].lerp(gradient, 1 - first),
            "exp_avg_sq": state["exp_avg_sq"].lerp(gradient.square(), 1 - second),
        }
        mean = new["exp_avg"] / (1 - first ** new["step"])
        square = new["exp_avg_sq"] / (1 - second ** new["step"])
        change = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * weight
        ratio: Tensor | float = 1.0
        if group["adapts"]:
            ours, theirs = (as_whole(torch.linalg.vector_norm(x)) for x in (weight, change))
            ratio = torch.where((ours > 0) & (theirs > 0), ours / theirs, 1.0)
        moved = weight - group["lr"] * ratio * change
        if bad is not None:
            moved = torch.where(bad > 0, weight, moved)
            new = {name: torch.where(bad > 0, state[name], value) for name, value in new.items()}
        weight.copy_(moved)
        state.update(new)


EPS, LAMB_EPS = 1e-8, 1e-6
_BLOCK = re.compile(r"(?:^|\.)(?:blocks|groups)\.(\d+)\.")  # ALBERT's shared layers are its groups


def make_optimisers(network: nn.Module, settings: Settings) -> list[Optimizer]:
    """Build the optimisers; each group's "scale" is its share of the learning rate (layer-wise decay)."""
    named = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
    require(bool(named), "the network has no parameter to train; unfreeze some", BadInput)
    top = 1 + max((depth for name in named if (depth := block_of(name)) is not None), default=-1)
    muon: dict[float, list[nn.Parameter]] = {}
    adam: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, weight in named.items():
        block = block_of(name)
        # embeddings are below the first block, and what stands on the blocks above the last
        depth = block if block is not None else -1 if "embeddings" in name.split(".") else top
        scale = settings.layer_decay ** (top - depth)
        if settings.optimiser == "muon" and weight.ndim == 2 and block is not None:
            muon.setdefault(scale, []).append(weight)
        else:
            adam.setdefault((scale, weight.ndim >= 2), []).append(weight)
    found: list[Optimizer] = []
    if muon:
        matrices = [{"params": weights, "scale": scale} for scale, weights in muon.items()]
        # updates of the size AdamW's have, so that one learning rate serves both
        options: dict[str, Any] = {"weight_decay": settings.weight_decay, "adjust_lr_fn": "match_rms_adamw"}
        found.append(BatchedMuon(matrices, settings.learning_rate, **options))
    if adam:
        groups = [
            {"params": weights, "scale": scale, "weight_decay": settings.weight_decay if decays else 0.0}
            for (scale, decays), weights in adam.items()
        ]
        found.append(_for_all(groups, settings))
    return found


def _for_all(groups: list[dict[str, Any]], settings: Settings) -> Optimizer:
    """The optimiser of what Muon does not take, which is everything where another is asked for."""
    rate, eps = settings.learning_rate, settings.eps
    if settings.optimiser == "adafactor":
        cut = any(isinstance(weight, DTensor) for group in groups for weight in group["params"])
        hint = "leave --shard out, or choose train.optimiser=adamw"
        require(not cut, f"adafactor keeps means of whole rows and columns, which shards have not; {hint}", BadInput)
        return Adafactor(groups, rate)
    if settings.optimiser == "lamb":
        groups = [{**group, "adapts": group["params"][0].ndim >= 2} for group in groups]
        return Lamb(groups, rate, betas=settings.betas, eps=eps or LAMB_EPS)
    return AdamW(groups, rate, betas=settings.betas, eps=eps or EPS, fused=True)


def set_learning_rate(optimisers: list[Optimizer], rate: float) -> None:
    """Give every group its share of the rate."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * group["scale"]


def update(optimisers: list[Optimizer], bad: Tensor) -> None:
    """Take a step unless it is bad. On a GPU the optimisers see to that, and the host never asks: it would wait."""
    waits = bad.is_cpu or any(isinstance(one, Adafactor) for one in optimisers)  # torch's cannot leave out a step
    if waits and bad:
        return
    for optimiser in optimisers:
        if not bad.is_cpu:
            optimiser.found_inf = bad.float()  # type: ignore[attr-defined]
        optimiser.step()


def block_of(name: str) -> int | None:
    """Give the number of the block a parameter is in; None outside the blocks."""
    found = _BLOCK.search(name)
    return int(found[1]) if found else None


def optimiser_tensors(optimisers: list[Optimizer], network: nn.Module) -> dict[str, Tensor]:
    """Give the optimisers' state of each parameter, as "parameter/what"; of shards, all ranks must ask."""
    names: dict[Tensor, str] = {weight: name for name, weight in network.named_parameters()}
    return {
        f"{names[weight]}/{what}": as_whole(value)
        for optimiser in optimisers
        for weight, state in optimiser.state.items()
        for what, value in state.items()
    }


def load_optimisers(optimisers: list[Optimizer], network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimiser_tensors` gave; torch decides on which device each number lies."""
    names = {weight: name for name, weight in network.named_parameters()}
    states: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, what = key.rsplit("/", 1)
        states.setdefault(name, {})[what] = value
    for optimiser in optimisers:
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        state = {
            place: {what: as_sharded(weight, value) for what, value in states[names[weight]].items()}
            for place, weight in enumerate(weights)
            if names[weight] in states
        }
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
