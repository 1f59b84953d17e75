"""LoRA (Hu et al. 2021): leave a trained matrix as it is and learn a small correction of low rank beside it."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from clearhead.errors import NotFound, require


class LoRA(nn.Module):
    """`base` plus up(down(x)) · alpha / rank. It starts as exactly `base`, since `up` starts at 0.

    What was `learnt` before is given as (down, up). `merge` adds the correction into the base matrix, which others may
    share; `weight` is their sum, and leaves both as they are.
    """

    def __init__(
        self, base: nn.Linear, rank: int, alpha: float | None = None, learnt: tuple[Tensor, Tensor] | None = None
    ) -> None:
        super().__init__()
        require(rank >= 1, f"LoRA rank must be at least 1, got {rank}")
        self.base = base
        self.scale = (rank if alpha is None else alpha) / rank
        self.merged = False
        if learnt is not None:
            self.down, self.up = (nn.Parameter(part.to(base.weight)) for part in learnt)
            return
        self.down = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.up = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        nn.init.normal_(self.down, std=base.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        out: Tensor = self.base(x)
        return out if self.merged else out + x @ self.down.mT @ self.up.mT * self.scale

    @property
    def weight(self) -> Tensor:
        """The base matrix with the correction, (out, in)."""
        base, up, down = (part.float() for part in (self.base.weight, self.up, self.down))
        return self.base.weight if self.merged else torch.addmm(base, up, down, alpha=self.scale).to(self.up.dtype)

    @torch.no_grad()
    def merge(self) -> None:
        """Fold the correction into the base matrix: no extra work per call."""
        if not self.merged:
            self.base.weight += self.up @ self.down * self.scale
            self.merged = True


def add_lora(module: nn.Module, names: Iterable[str], rank: int, alpha: float | None = None) -> list[LoRA]:
    """Wrap every Linear whose last name is in `names` (such as "qkv", "output", "up", "down"); freeze the rest."""
    wanted = set(names)
    module.requires_grad_(False)
    found = [
        (parent, name, child)
        for parent in list(module.modules())
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and name in wanted
    ]
    linears = sorted({name.rsplit(".", 1)[-1] for name, part in module.named_modules() if isinstance(part, nn.Linear)})
    require(bool(found), f"no Linear is named {sorted(wanted)}; the module has {linears}", NotFound)
    adapters: dict[nn.Linear, LoRA] = {}
    for parent, name, child in found:  # a Linear that several parents share gets one adapter
        adapters.setdefault(child, LoRA(child, rank, alpha))
        setattr(parent, name, adapters[child])
    return list(adapters.values())


def plain_parameters(module: nn.Module) -> dict[str, Tensor]:
    """All parameters by the names that they have without adapters, the corrections added."""
    adapters = {f"{name}.": part for name, part in module.named_modules() if isinstance(part, LoRA)}
    found: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        owner = next((prefix for prefix in adapters if name.startswith(prefix)), None)
        if owner is None:
            found[name] = parameter
        elif name == f"{owner}base.weight":
            found[f"{owner}weight"] = adapters[owner].weight
        elif name == f"{owner}base.bias":
            found[f"{owner}bias"] = parameter
    return found


def remove_lora(module: nn.Module, *, merge: bool = False) -> None:
    """Put the bare Linears back; without their corrections, unless they are merged before or here."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if isinstance(child, LoRA):
                if merge:
                    child.merge()
                setattr(parent, name, child.base)
