"""Word vectors by negative sampling."""

from collections.abc import Mapping

from torch import nn

from clearhead.data.batch import Batch
from clearhead.objectives.loss import Loss
from clearhead.objectives.negatives import negative_sampling


class GuessWord:
    """Which word stood there? `network(ids, layout, candidates)` gives logits. Targets: candidates (M, 1 + K)."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"word": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the words to guess."""
        return {"word": batch.layout.batch}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Negative sampling."""
        candidates = batch.targets["candidates"]
        return {"word": negative_sampling(self.network(batch.ids, batch.layout, candidates), candidates)}
