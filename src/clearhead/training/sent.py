"""A step's numbers on their way from the device: the host works on and reads them when they are needed."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.training.distributed import Ranks
from clearhead.training.passes import Outcome


@dataclass(frozen=True)
class StepNumbers:
    """What is known of a step: sums and counts over all ranks, and whether it was left out as bad."""

    sums: dict[str, tuple[float, float]]
    loss: float
    norm: float  # before clipping
    bad: bool


class Sent:
    """One transfer for all numbers of a step, begun at once and waited for by `read`."""

    def __init__(self, outcome: Outcome, bad: Tensor, ranks: Ranks) -> None:
        self._sums, self._ranks = outcome.sums, ranks
        numbers = [number for sums in outcome.sums for pair in sums.values() for number in pair]
        self._known = [None if isinstance(number, Tensor) else number for number in numbers]
        tensors = [number for number in (*numbers, outcome.loss, outcome.norm, bad) if isinstance(number, Tensor)]
        self._host = torch.stack([number.to(tensors[0].device) for number in tensors])
        self._arrived = None
        if self._host.is_cuda:
            self._host = torch.empty_like(self._host, device="cpu", pin_memory=True).copy_(
                self._host, non_blocking=True
            )
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> StepNumbers:
        """Wait until the device has come so far."""
        if self._arrived is not None:
            self._arrived.synchronize()
        *read, loss, norm, bad = self._host.tolist()
        arrived = iter(read)
        known = [next(arrived) if number is None else number for number in self._known]
        names = list(self._sums[0])
        added = self._ranks.sum([sum(known[place :: 2 * len(names)]) for place in range(2 * len(names))])
        pairs = zip(added[::2], added[1::2], strict=True)
        return StepNumbers(dict(zip(names, pairs, strict=True)), loss, norm, bool(bad))
