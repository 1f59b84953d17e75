"""Several processes as one: torchrun starts them, each takes its share of every step's micro-batches."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from clearhead.errors import BadInput


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """The one process that writes and prints."""
        return self.rank == 0

    def share(self, indices: Sequence[int]) -> list[tuple[int, bool]]:
        """Deal a step's batches out: (index, whether it counts), equally many for every rank.

        Ranks go through the network together, so one that has nothing left repeats a batch that does not count.
        """
        rounds = range(0, len(indices), self.world)
        mine = [start + self.rank for start in rounds]
        return [(indices[place], True) if place < len(indices) else (indices[0], False) for place in mine]

    def sum(self, values: Sequence[float]) -> list[float]:
        """Add equally many numbers of the host over all ranks. No GPU is waited for: they go from CPU to CPU."""
        if self.world == 1:
            return list(values)
        added = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(added)
        return added.tolist()

    def agree(self, loss: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
        """Average the loss of a step over the ranks, of which each has its share times their number."""
        if self.world == 1:
            return loss, norm
        (added,) = self.sum([loss.item()])
        return torch.tensor(added / self.world), norm.cpu()

    def any(self, wish: bool) -> bool:
        """Tell whether any rank wishes it."""
        return self.sum([wish]) != [0.0]

    def from_first(self, values: Sequence[float]) -> list[float]:
        """Give every rank the numbers of the first, which must be equally many everywhere."""
        if self.world == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64)
        distributed.broadcast(shared, 0)
        return shared.tolist()

    def wait(self) -> None:
        """Go on when all ranks are here."""
        if self.world > 1:
            distributed.barrier()

    def wrap(self, module: nn.Module) -> nn.Module:
        """Let gradients be averaged over the ranks on the way back."""
        if self.world == 1:
            return module
        # a head that no objective of this run uses has no gradient
        return DistributedDataParallel(module, find_unused_parameters=True)


def apart(module: nn.Module, *, last: bool) -> AbstractContextManager[object]:
    """Leave gradients with their rank until the last pass of a step."""
    shards: Any = module
    if hasattr(shards, "set_requires_gradient_sync"):
        shards.set_requires_gradient_sync(last)
    return nullcontext() if last or not isinstance(module, DistributedDataParallel) else module.no_sync()


def local_device(device: str) -> torch.device:
    """Give each process on a machine its own GPU."""
    if device == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    try:
        return torch.device(device)
    except RuntimeError:
        raise BadInput(f"there is no device {device!r}; choose cpu or cuda") from None


def first_process() -> bool:
    """Whether this process writes what all share, outside of `train` too."""
    return int(os.environ.get("RANK", "0")) == 0


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """Join the processes that torchrun started; alone without it."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    ours = not distributed.is_initialized()
    if ours:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size())
    finally:
        if ours:
            distributed.destroy_process_group()
