"""A network in shards: each rank keeps its part of every parameter, gradient and optimiser memory (FSDP2)."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, distributed, nn

from clearhead.training.distributed import Ranks

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
