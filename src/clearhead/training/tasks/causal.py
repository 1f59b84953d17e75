"""Language modelling: the next token, the tokens on both sides (ELMo), and translation."""

# N packed tokens · V vocabulary

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.nn.network import Network
from clearhead.objectives.causal import IGNORE, causal_lm
from clearhead.objectives.loss import Loss


class NextToken:
    """The token after each, by a head "causal_lm" or by `network(ids, layout)`, which gives logits (N, V).

    Targets: next (N,), -100 where there is none.
    """

    def __init__(self, network: nn.Module, *, label_smoothing: float = 0.0) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"next": 1.0}
        self.label_smoothing = label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that are followed by one."""
        return {"next": int((batch.targets["next"] != IGNORE).sum())}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each token."""
        head = ("causal_lm",) if isinstance(self.network, Network) else ()
        logits = self.network(*head, batch.ids, batch.layout)
        return {"next": causal_lm(logits, batch.targets["next"], label_smoothing=self.label_smoothing)}


class BothNeighbours:
    """The token after each, and the one before. `network(ids, layout)` gives both logits. Targets: next, previous."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"next": 0.5, "previous": 0.5}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that have a neighbour on each side."""
        return {name: int((batch.targets[name] != IGNORE).sum()) for name in self.weights}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each token in each direction."""
        logits = self.network(batch.ids, batch.layout)
        return {name: causal_lm(one, batch.targets[name]) for name, one in zip(self.weights, logits, strict=True)}


class Translation:
    """Each word of the target from its source and the words before. Targets: none but the ids; it needs a `source`."""

    def __init__(self, network: nn.Module, *, label_smoothing: float = 0.0) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"words": 1.0}
        self.label_smoothing = label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the words of the targets."""
        return {"words": batch.tokens}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each word."""
        logits = write(self.network, batch)
        return {"words": causal_lm(logits, batch.ids, label_smoothing=self.label_smoothing)}


def write(network: Any, batch: Batch) -> Tensor:
    """Teacher forcing: logits (N, V) for `batch.ids`, each from `batch.source` and the ids before it.

    A network with a head "causal_lm" is given the ids after its start token; another does that itself.
    """
    if not isinstance(network, Network):
        return network(batch)
    before = batch.ids.roll(1).masked_fill(batch.layout.positions == 0, network.encoder.config.start)
    return network("causal_lm", before, batch.layout, batch.source)
