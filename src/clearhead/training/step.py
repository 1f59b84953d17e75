"""Forward and backward through the micro-batches of one step, and its metrics read while the next one runs."""

# B sequences · N packed tokens · M chosen tokens · Q questions · P parts of the loss

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from clearhead.data.batch import Batch
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput, ClearheadError, require
from clearhead.nn.layout import Packed
from clearhead.objectives.loss import Count
from clearhead.training.distributed import Ranks, Sharding, blocks_of, clip_gradients, sync_gradients
from clearhead.training.settings import Precision, Settings
from clearhead.training.tasks.task import Task

Sums = dict[str, tuple[Count, Count]]
Run = Callable[[Batch, Tensor], tuple[Tensor, Sums]]
Share = tuple[int, int, Batch, bool]  # number of the batch, which part, the part, whether it counts (see Ranks.share)


@dataclass(frozen=True)
class DeviceMetrics:
    """What a step gave, still on the device; the gradients are in the parameters, clipped."""

    sums: list[Sums]  # of each forward pass of this rank
    loss: Tensor  # (), of all ranks
    norm: Tensor  # (), before clipping


class ForwardBackward:
    """A task made ready to run: in its precision, perhaps compiled, perhaps one of several ranks."""

    def __init__(
        self,
        task: Task,
        settings: Settings,
        device: torch.device,
        ranks: Ranks,
        sharding: Sharding | None = None,
        *,
        in_place: bool = False,  # whether gradients stay where they are, for graphs that add to them
    ) -> None:
        self._task, self._settings, self._device, self._ranks = task, settings, device, ranks
        self._cuda, self._in_place = device.type == "cuda", in_place
        plain = not settings.compile
        require(plain or sharding is None, "a network in shards is not compiled; set compile=False or shard=False")
        require(plain or self._cuda, f"compile is for GPUs, the device is {device}; set compile=False")
        self._module: nn.Module = _WithParameters(task.network, _runner(_Weighted(task), settings, device))
        if sharding is not None:
            sharding.begin(self._module, ranks, device)
        else:
            self._module = ranks.wrap(self._module)
        self._limit = _longest(task.network) if settings.compile else None
        self._trained = [weight for weight in task.network.parameters() if weight.requires_grad]
        self.zero_grad()  # what the caller, or a run that broke off, left behind

    def run(self, shares: Sequence[Share], totals: Mapping[str, int], pieces: int) -> tuple[DeviceMetrics, int]:
        """Fill the gradients of one step; give its metrics and into how many pieces micro-batches had to be cut."""
        while True:
            try:
                return self._run(shares, totals, pieces), pieces
            except torch.OutOfMemoryError as error:
                longest = max(batch.layout.batch for *_, batch, _ in shares)
                if self._ranks.world > 1 or pieces >= longest:
                    raise ClearheadError(
                        f"out of memory with {longest} sequences in {pieces} pieces on {self._ranks.world} ranks; "
                        "make batches of fewer tokens and accumulate more of them, or set checkpointing"
                    ) from error
            # outside of the handler, which holds on to the tensors of the failed pass. What it added to the gradients
            # is unknown, so that the step begins anew.
            self.zero_grad()
            if self._cuda:
                torch.cuda.empty_cache()
            pieces *= 2

    def zero_grad(self) -> None:
        """Drop the gradients."""
        if self._in_place:
            torch._foreach_zero_([weight.grad for weight in self._trained if weight.grad is not None])
            return
        for weight in self._trained:  # quicker than zero_grad, which walks through all modules
            weight.grad = None

    def _run(self, shares: Sequence[Share], totals: Mapping[str, int], pieces: int) -> DeviceMetrics:
        weights = [self._task.weights[part] / max(1, totals[part]) for part in self._task.weights]
        # gradients are averaged over ranks, sums are wanted
        scales = torch.tensor([self._ranks.world * weight for weight in weights], pin_memory=self._cuda)
        scales = scales.to(self._device, non_blocking=True)
        cut = [(index, first, split(batch, pieces), counts) for index, first, batch, counts in shares]
        parts = [
            (index, place, one, counts) for index, first, some, counts in cut for place, one in enumerate(some, first)
        ]
        gathered: list[Sums] = []
        losses: list[Tensor] = []
        for number, (index, place, piece, counts) in enumerate(parts, start=1):
            # a batch has the same dropout whichever rank, session or micro-batch of a step it falls to
            self._seed(int(rng(Stream.DROPOUT, self._settings.seed, index, place).integers(2**63)))
            with sync_gradients(self._module, last=number == len(parts)):
                ready = fix_max_length(piece, self._limit).to(self._device)
                if self._settings.compile:
                    mark_dynamic(ready)
                loss, sums = self._module(ready, scales if counts else torch.zeros_like(scales))
                loss.backward()
            gathered.append(sums if counts else dict.fromkeys(sums, (0, 0)))
            losses.append(loss.detach())
        norm = clip_gradients(self._trained, self._settings.clip)
        return DeviceMetrics(gathered, *self._ranks.mean_loss(torch.stack(losses).sum(), norm))

    def _seed(self, seed: int) -> None:
        """Seed what this run draws from; `torch.manual_seed` does so for every device there is, and slowly."""
        torch.default_generator.manual_seed(seed)
        if self._cuda:
            torch.cuda.default_generators[self._device.index or 0].manual_seed(seed)


@dataclass(frozen=True)
class StepMetrics:
    """What is known of a step: sums and counts over all ranks, and whether it was left out as bad."""

    sums: dict[str, tuple[float, float]]
    loss: float
    norm: float  # before clipping
    bad: bool


class PendingMetrics:
    """One transfer for all numbers of a step, begun at once and waited for by `read`."""

    def __init__(self, found: DeviceMetrics, bad: Tensor, ranks: Ranks) -> None:
        self._sums, self._ranks = found.sums, ranks
        numbers = [number for sums in found.sums for pair in sums.values() for number in pair]
        self._known = [None if isinstance(number, Tensor) else number for number in numbers]
        tensors = [number for number in (*numbers, found.loss, found.norm, bad) if isinstance(number, Tensor)]
        self._host = torch.stack([number.to(tensors[0].device) for number in tensors])
        self._arrived = None
        if self._host.is_cuda:
            pinned = torch.empty_like(self._host, device="cpu", pin_memory=True)
            self._host = pinned.copy_(self._host, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> StepMetrics:
        """Wait until the device has come so far."""
        if self._arrived is not None:
            self._arrived.synchronize()
        *read, loss, norm, bad = self._host.tolist()
        arrived = iter(read)
        known = [next(arrived) if number is None else number for number in self._known]
        names = list(self._sums[0])
        added = self._ranks.sum([sum(known[place :: 2 * len(names)]) for place in range(2 * len(names))])
        pairs = zip(added[::2], added[1::2], strict=True)
        return StepMetrics(dict(zip(names, pairs, strict=True)), loss, norm, bool(bad))


def precision(settings: Settings, device: torch.device) -> Precision:
    """Give the precision that "auto" stands for."""
    if settings.precision != "auto":
        return settings.precision
    return "bf16" if device.type == "cuda" else "fp32"


def fix_max_length(batch: Batch, limit: int | None) -> Batch:
    """Let all batches have the same longest length, as far as compiled code is told: another would be compiled anew."""
    if limit is None or batch.layout.max_length > limit:
        return batch
    return replace(batch, layout=replace(batch.layout, max_length=limit))


def mark_dynamic(batch: Batch) -> None:
    """Tell the compiler at once that numbers of sequences, tokens and targets differ from batch to batch."""
    tensors = (batch.ids, batch.layout.offsets, batch.layout.positions, batch.segments, *batch.targets.values())
    for tensor in tensors:
        if tensor is not None:
            torch._dynamo.maybe_mark_dynamic(tensor, 0)


def _longest(network: nn.Module) -> int | None:
    lengths = (getattr(part, "max_length", None) for part in network.modules())
    return min((length for length in lengths if isinstance(length, int)), default=None)


class _Weighted(nn.Module):
    """A task as one function: a batch and the scale of each part -> the loss to go back from, sums to report."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.network = task.network
        self.losses = task.losses
        self.parts = tuple(task.weights)

    def forward(self, batch: Batch, scales: Tensor) -> tuple[Tensor, Sums]:
        """Scales are (P,)."""
        losses = self.losses(batch)
        first, *others = (losses[p].total.float() * s for p, s in zip(self.parts, scales.unbind(), strict=True))
        sums: Sums = {}
        for part in self.parts:
            sums[part] = (losses[part].total.detach(), losses[part].count)
            sums |= {f"{part}/{name}": (value.detach(), n) for name, (value, n) in losses[part].metrics.items()}
        return sum(others, start=first), sums


class _WithParameters(nn.Module):
    """A compiled function together with the parameters it uses, which is what DistributedDataParallel asks for."""

    def __init__(self, network: nn.Module, run: Run) -> None:
        super().__init__()
        self.network = network
        self.run = run

    def forward(self, batch: Batch, scales: Tensor) -> tuple[Tensor, Sums]:
        """Run."""
        return self.run(batch, scales)


def _runner(module: _Weighted, settings: Settings, device: torch.device) -> Run:
    def full(batch: Batch, scales: Tensor) -> tuple[Tensor, Sums]:
        return module(batch, scales)

    def automatic(batch: Batch, scales: Tensor) -> tuple[Tensor, Sums]:
        with torch.autocast(device.type, torch.bfloat16):
            return module(batch, scales)

    if precision(settings, device) == "fp32":
        return torch.compile(full) if settings.compile else full
    return torch.compile(in_half(module)) if settings.compile else automatic


def in_half(module: nn.Module) -> Run:
    """Run a module on bfloat16 copies of its parameters; gradients arrive at the originals, in fp32.

    Made to be compiled: then nothing between the blocks is fp32, which with autocast it is.
    """
    first: dict[nn.Parameter, str] = {}
    places = [
        (name, first.setdefault(weight, name))
        for prefix, part in module.named_modules()
        for name, weight in part.named_parameters(prefix, recurse=False)
    ]

    def run(batch: Batch, scales: Tensor) -> tuple[Tensor, Sums]:
        halves = {name: weight.bfloat16() for name, weight in module.named_parameters()}
        copies = {name: halves[original] for name, original in places}
        # ties are ours to keep: where heads share a module, torch would put a copy back in place of the original
        return functional_call(module, copies, (batch, scales), tie_weights=False)

    return run


@contextmanager
def activation_checkpointing(network: nn.Module, wanted: bool) -> Iterator[None]:
    """Keep only the inputs of each block of the network and compute the rest again in the backward pass."""
    blocks = blocks_of(network) if wanted else []
    for block in blocks:
        block.__dict__["forward"] = partial(checkpoint, block.forward, use_reentrant=False)
    try:
        yield
    finally:
        for block in blocks:
            del block.__dict__["forward"]


_BY_TOKEN = {"tags", "next", "previous", "place", "rank"}
_BY_SEQUENCE = {"next_sentence", "sentence_order", "classes", "scores", "starts", "ends", "candidates"}
_BY_POSITION = {"where", "labels"}
_BY_QUESTION = {"choice", "choices"}


def split_batch(batch: Batch, share: float = 0.5) -> tuple[Batch, Batch]:
    """Cut a batch in two, the first with about this share of its tokens; losses over both are those over the whole."""
    unknown = _unknown(batch)
    what = f"targets {sorted(unknown)}" if unknown else "no targets"
    apart = not belongs_together(batch)
    require(apart, f"a batch with {what} cannot be cut in two, because its sequences belong together", BadInput)
    inner, ends = _cuts(batch), list(accumulate(batch.layout.lengths))
    one = "a batch of one sequence cannot be cut in two; choose shorter sequences or a smaller network"
    require(bool(inner), one, BadInput)
    cut = min(inner, key=lambda place: abs(ends[place - 1] - share * batch.tokens))
    return _part(batch, 0, cut), _part(batch, cut, batch.layout.batch)


def split(batch: Batch, pieces: int) -> list[Batch]:
    """Cut a batch into `pieces` of about equally many tokens, or fewer where it has fewer sequences."""
    if pieces == 1 or (not belongs_together(batch) and not _cuts(batch)):
        return [batch]
    first = pieces // 2
    halves = zip(split_batch(batch, first / pieces), (first, pieces - first), strict=True)
    return [piece for half, count in halves for piece in split(half, count)]


def belongs_together(batch: Batch) -> bool:
    """Whether the loss of a sequence depends on the others of its batch, so that it cannot be cut."""
    return bool(_unknown(batch)) or not (batch.targets or batch.source is not None)


def _unknown(batch: Batch) -> set[str]:
    return set(batch.targets) - _BY_TOKEN - _BY_SEQUENCE - _BY_POSITION - _BY_QUESTION


def _cuts(batch: Batch) -> list[int]:
    """After which sequences a batch may be cut: candidates of one question stay together."""
    count = batch.layout.batch
    cuts = batch.targets["choices"].cumsum(0).tolist() if "choices" in batch.targets else range(1, count + 1)
    return [cut for cut in cuts if cut < count]


def _part(batch: Batch, first: int, last: int) -> Batch:
    """Take sequences `first` to `last`, without the last."""
    lengths = batch.layout.lengths
    start, end = sum(lengths[:first]), sum(lengths[:last])
    layout = Packed.of(lengths[first:last], batch.ids.device, batch.layout.backend)
    segments = None if batch.segments is None else batch.segments[start:end]

    def cut(name: str, target: Tensor) -> Tensor:
        if name in _BY_TOKEN:
            return target[start:end]
        if name in _BY_SEQUENCE:
            return target[first:last]
        if name in _BY_QUESTION:
            ends = batch.targets["choices"].cumsum(0)  # (Q,)
            return target[(ends > first) & (ends <= last)]
        where = batch.targets["where"]
        return target[(where >= start) & (where < end)] - (start if name == "where" else 0)

    targets = {name: cut(name, target) for name, target in batch.targets.items()}
    source = None if batch.source is None else _part(batch.source, first, last)
    return Batch(batch.ids[start:end], layout, segments, targets, source)
