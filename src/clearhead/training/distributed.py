"""Several processes as one: torchrun starts them; replicas, or parameters in shards (FSDP2)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
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

    def share(self, indices: Sequence[int], parts: int = 1) -> list[tuple[int, int, bool]]:
        """Deal a step's batches, each in so many parts, out: (index, part, whether it counts), as many for every rank.

        Ranks go through the network together, so one that has nothing left repeats a part that does not count.
        """
        units = [(index, part) for index in indices for part in range(parts)]
        mine = range(self.rank, -(-len(units) // self.world) * self.world, self.world)
        return [(*units[place], True) if place < len(units) else (*units[0], False) for place in mine]

    def sum(self, values: Sequence[float]) -> list[float]:
        """Add equally many numbers of the host over all ranks. No GPU is waited for: they go from CPU to CPU."""
        if self.world == 1:
            return list(values)
        added = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(added)
        return added.tolist()

    def mean_loss(self, loss: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
        """Average the loss of a step over the ranks, of which each has its share times their number."""
        if self.world == 1:
            return loss, norm
        (added,) = self.sum([loss.item()])
        return torch.tensor(added / self.world), norm.cpu()

    def any(self, value: bool) -> bool:
        """Tell whether it is true on any rank."""
        return self.sum([value]) != [0.0]

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


def sync_gradients(module: nn.Module, *, last: bool) -> AbstractContextManager[object]:
    """Leave gradients with their rank until the last backward pass of a step."""
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
def process_group(device: torch.device) -> Iterator[Ranks]:
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


Place = tuple[nn.Module, str, Any]  # a module, the name of a part or parameter of it, and what stands there


class Sharding:
    """Where the parameters of a network are. One that is not sharded is always whole."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._whole: list[Place] = []  # what stood where before
        self._shards: list[Place] = []
        self._pairs: list[tuple[nn.Parameter, Any]] = []  # parameters and their DTensors

    def begin(self, root: nn.Module, ranks: Ranks, device: torch.device) -> None:
        """Cut the network up, blocks first, then what is left under `root`, the module that is called."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard  # loads much, and few runs are sharded

        weights = dict(self._network.named_parameters())
        for tensor in chain(weights.values(), self._network.buffers()):
            distributed.broadcast(tensor.detach(), 0)
        mesh = init_device_mesh(device.type, (ranks.world,))
        blocks = blocks_of(self._network)
        inside = {module for block in blocks for module in block.modules()}
        outside = [
            (module, name)
            for module in self._network.modules()
            if module not in inside
            for name, _ in module.named_parameters(recurse=False)
        ]
        self._whole = [*_places(self._network, blocks), *((m, name, getattr(m, name)) for m, name in outside)]
        # sharding cannot be undone, so that copies of the blocks are cut, which have the same parameters
        held = {id(tensor): tensor for tensor in chain(weights.values(), self._network.buffers())}
        copies: dict[Any, Any] = {block: fully_shard(deepcopy(block, held), mesh=mesh) for block in blocks}
        _put([(owner, name, copies[what]) for owner, name, what in self._whole if what in copies])
        fully_shard(root, mesh=mesh)
        self._shards = [(owner, name, getattr(owner, name)) for owner, name, _ in self._whole]
        self._pairs = [(weights[name], shard) for name, shard in self._network.named_parameters()]
        self._release()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Put the network together on all ranks; what is done to its weights meanwhile goes back into the shards."""
        self.gather()
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, shard in self._pairs:
                    shard.copy_(as_sharded(shard, weight.detach()))
            _put(self._shards)
            self._release()

    def gather(self) -> None:
        """Put the network together, with the very parameters and modules it had before; all ranks must ask."""
        for weight, shard in self._pairs:
            weight.data = as_whole(shard.detach())
        _put(self._whole)

    def _release(self) -> None:
        for weight, _ in self._pairs:
            weight.data = weight.new_empty(0)


def as_whole(tensor: Any) -> Tensor:
    """Gather a tensor from all ranks, which must all ask; one that is not sharded is whole already."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def as_local(tensor: Any) -> Tensor:
    """What this rank has of a tensor; all of one that is not sharded."""
    return tensor.to_local() if hasattr(tensor, "full_tensor") else tensor


def clip_gradients(weights: Sequence[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients so that their norm is at most `limit`; gives the norm that it was, ().

    On a CPU, norms of rows are added in double precision: the sum is the same however rows lie among ranks, where
    torch's differs in its last bit, which Muon, in bf16, makes thousands of times larger.
    """
    gradients: list[Any] = [weight.grad for weight in weights if weight.grad is not None]
    if not gradients or not gradients[0].is_cpu:
        return as_whole(nn.utils.clip_grad_norm_(weights, limit))
    own = [as_local(gradient) for gradient in gradients]
    parts = [one.flatten(1).norm(dim=1) if one.ndim > 1 else one.flatten() for one in own]
    rows = torch.cat(parts).double()
    squares = rows @ rows
    if own[0] is not gradients[0]:
        distributed.all_reduce(squares)
    norm = squares.sqrt().float()
    if not norm <= limit:
        torch._foreach_mul_(own, limit / (norm + 1e-6))
    return norm


def as_sharded(like: Any, tensor: Tensor) -> Tensor:
    """Cut a tensor up as another one is; every rank has all of it and keeps its part."""
    if not hasattr(like, "full_tensor") or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """Find the blocks of all encoders in a network, each once."""
    stacks = [module for name, module in network.named_modules() if name.split(".")[-1] == "blocks"]
    return list(dict.fromkeys(block for stack in stacks for block in stack.children()))


def _places(network: nn.Module, parts: list[nn.Module]) -> list[Place]:
    """Find every place where one of the parts stands, also a second one of the same part."""
    named = [(name, module) for name, module in network.named_modules(remove_duplicate=False) if module in parts]
    split = [(*name.rpartition("."), module) for name, module in named]
    return [(network.get_submodule(owner), leaf, module) for owner, _, leaf, module in split]


def _put(places: list[Place]) -> None:
    for owner, name, what in places:
        setattr(owner, name, what)
