"""What every task is: a network, and the parts of its loss."""

# N packed tokens · M masked tokens · D width · V vocabulary

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import WrongTask, require
from clearhead.nn.heads import Network
from clearhead.objectives.loss import Loss


class Task(Protocol):
    """Encoder, heads and objectives, put together by a recipe."""

    network: nn.Module
    weights: Mapping[str, float]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the items of each part, from the targets alone: a step's totals are known before its first pass."""

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the network and give one loss for each part."""


class HeadTask(ABC):
    """A task of one part: a head and its objective.

    A subclass names the head and the part, counts its items in `_count`, and compares logits with targets in `_loss`.
    """

    head: ClassVar[str]
    part: ClassVar[str]

    def __init__(self, network: Network) -> None:
        need_heads(network, self.head)
        self.network: nn.Module = network
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
        return batch.layout.batch  # sequences, unless a subclass says otherwise

    @abstractmethod
    def _loss(self, logits: Tensor, batch: Batch) -> Loss: ...


def need_heads(network: Network, *names: str, who: str = "this model") -> None:
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
