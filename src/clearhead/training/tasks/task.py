"""What every task is: a network, and the parts of its loss."""

# N packed tokens · M masked tokens · D width · V vocabulary

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import WrongTask, require
from clearhead.objectives.loss import Loss, count_targets


class Task(Protocol):
    """Encoder, heads and objectives, put together by a recipe."""

    network: nn.Module
    weights: Mapping[str, float]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the items of each part, from the targets alone: a step's totals are known before its first pass."""

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the network and give one loss for each part."""


Objective = Callable[..., Loss]  # of logits and targets


class HeadTask:
    """A task of one part: `objective` compares the logits of a head with the targets it is named.

    A subclass names these, and overrides what is different: how logits are made, items counted, or both compared.
    """

    head: ClassVar[str] = ""  # none where the network itself gives what is compared
    part: ClassVar[str]
    targets: ClassVar[tuple[str, ...]] = ()  # an entry of the last is an item, unless it is IGNORE_INDEX
    objective: ClassVar[Objective]

    def __init__(self, network: nn.Module) -> None:
        if self.head:
            need_heads(network, self.head)
        self.network = network
        self.weights: Mapping[str, float] = {self.part: 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """See `Task`."""
        return {self.part: self._count(batch)}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """See `Task`."""
        return {self.part: self._loss(self._logits(batch), batch)}

    def _logits(self, batch: Batch) -> Tensor:
        return answer(self.network, self.head, batch)

    def _count(self, batch: Batch) -> int:
        return int(count_targets(batch.targets[self.targets[-1]]))

    def _loss(self, logits: Tensor, batch: Batch) -> Loss:
        return self.objective(logits, *(batch.targets[name] for name in self.targets))


def need_heads(network: Any, *names: str, who: str = "this model") -> None:
    """Refuse a network that lacks a head, before anything is spent."""
    for name in names:
        has = ", ".join(network.heads) or "none"
        require(name in network.heads, f"{who} has no head {name!r} to train; it has {has}", WrongTask)


def encode(network: Any, batch: Batch) -> Tensor:
    """Run the encoder: hidden states (N, D)."""
    return network.encoder(batch.ids, batch.layout, batch.segments)


def answer(network: Any, head: str, batch: Batch) -> Tensor:
    """Run the encoder and one head."""
    return network(head, batch.ids, batch.layout, batch.segments)


def read(network: Any, head: str, hidden: Tensor, batch: Batch) -> Tensor:
    """Run one head on hidden states that are there already."""
    return network.heads[head](hidden, batch.layout)


def fill(network: Any, hidden: Tensor, batch: Batch) -> Tensor:
    """Run the masked-LM head at the masked places alone: logits (M, V)."""
    return network.heads["masked_lm"](hidden, batch.layout, batch.targets["where"])
