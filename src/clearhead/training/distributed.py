"""Several processes as one: torchrun starts them; replicas, or parameters in shards (FSDP2)."""

import json
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from secrets import token_hex
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from clearhead.errors import BadInput, ClearheadError, short

log = logging.getLogger(__name__)

AGENT = os.getppid()  # whoever started this process: under torchrun the agent, which starts it again
_LOOK = 1.0  # seconds between two looks at files that another process writes, or at the agent
_MEET = 0.05  # seconds between two looks at who else is there
_MEETING = 600.0  # seconds until ranks that were started together must have met
# how long ranks wait for one another: the first one alone measures, and a lost machine is replaced by its scheduler
_PATIENCE = timedelta(hours=4)
_SHARING = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
_LOST = re.compile("gloo|nccl|socket|connection", re.IGNORECASE)

Found = TypeVar("Found")


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


def job() -> str | None:
    """What torchrun calls the job of this process, the same whenever it is started again; None if that is not known."""
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    named = name != "none" or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return name if named else None


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the processes that torchrun started; alone without it, and as before where they are joined already."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    if distributed.is_initialized():
        yield Ranks(distributed.get_rank(), distributed.get_world_size())
        return
    end_with_agent()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store, rank, world = next(rendezvous("env://", timeout=timedelta(seconds=_MEETING)))
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if rank == 0 and shared and int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        told = "a machine that is started again will not be met by the others; set %s=1 for torchrun on all of them"
        log.warning(told, _SHARING)
    with _one_sentence():
        distributed.init_process_group(
            backend, store=meet(store, rank, world), rank=rank, world_size=world, timeout=_PATIENCE
        )
        try:
            yield Ranks(rank, world)
        finally:
            distributed.destroy_process_group()


def meet(store: Store, rank: int, world: int, patience: float = _MEETING) -> Store:
    """Agree with all ranks of this attempt on a part of the store that nobody has used; gives that part.

    torchrun keeps one store for all attempts, in which the addresses of the dead still stand, and counts attempts on
    each machine for itself, so that only those who are alive can tell which is theirs. Each rank says a word that was
    never said; the first names a place together with the words it heard, and whoever finds the own word among them
    agrees. Words change when a rank of this attempt takes the place of a dead one; then the first names another.
    """
    word, heard, place, agreed = token_hex(8), [""] * world, "", False
    others = range(1, world)
    end = time.monotonic() + patience
    if rank:
        store.set(f"word/{rank}", word)
    while not agreed:
        if time.monotonic() > end:
            raise ClearheadError(
                f"rank {rank} of {world} did not meet all others within {patience:.0f} seconds; look at what they say, "
                f"and set {_SHARING}=1 for torchrun on every machine, so that one which was "
                "started again is found"
            )
        if rank == 0:
            words = [word, *(_said(store, f"word/{other}") for other in others)]
            if all(words) and words != heard:
                heard, place = words, f"met/{token_hex(8)}"
                store.set("place", json.dumps([place, *heard]))
            agreed = bool(place) and store.check([f"{place}/agreed/{other}" for other in others])
            if agreed:
                store.set(f"{place}/all", "")
        else:
            named, *heard = json.loads(_said(store, "place") or '[""]')
            if heard[rank : rank + 1] == [word] and named != place:
                place = named
                store.set(f"{place}/agreed/{rank}", "")
            agreed = bool(place) and store.check([f"{place}/all"])
        time.sleep(0 if agreed else _MEET)
    return PrefixStore(place, store)


def _said(store: Store, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Say in a sentence that another rank is gone, where libraries would tell where they noticed."""
    try:
        yield
    except RuntimeError as error:
        gone = isinstance(error, distributed.DistError) or _LOST.search(str(error))
        if isinstance(error, ClearheadError) or not gone:
            raise
        raise ClearheadError(
            f"another process of this run has ended or cannot be reached ({short(str(error))}); with --max-restarts "
            "torchrun starts all of them again, and the run goes on from its last checkpoint"
        ) from error


def end_with_agent() -> None:
    """Stop this process, as SIGTERM does, when the agent of torchrun that started it is no longer there.

    Nobody would restart it, and it would hold the folder of the run against those who take its place.
    """
    name = "torchrun's agent"
    if "TORCHELASTIC_RUN_ID" not in os.environ or any(thread.name == name for thread in threading.enumerate()):
        return

    def watch() -> None:
        while os.getppid() == AGENT:
            time.sleep(_LOOK)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name=name, daemon=True).start()


def wait_for_first(look: Callable[[], Found | None]) -> Found:
    """Look again and again for what the first process writes; what `look` gives is not None when it is there."""
    while (found := look()) is None:
        if distributed.is_initialized():
            with _one_sentence():  # the store is where the first process is, and ends with it or with its agent
                distributed.distributed_c10d._get_default_store().check(["place"])
        time.sleep(_LOOK)
    return found


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
