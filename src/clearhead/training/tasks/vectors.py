"""Fine-tuning of sentence vectors on pairs: first all anchors, then all positives."""

from collections.abc import Mapping

from torch import nn

from clearhead.data.batch import Batch
from clearhead.nn.heads import SentenceVector
from clearhead.nn.network import Network
from clearhead.objectives.contrastive import cosine_regression, in_batch_negatives, similarity_order
from clearhead.objectives.loss import Loss
from clearhead.training.tasks.run import encode


class Contrast:
    """Each anchor finds its positive among those of the micro-batch, whose size therefore matters. Targets: none."""

    def __init__(self, network: Network, vector: SentenceVector) -> None:
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"pairs": 1.0}
        self.vector = vector

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the pairs."""
        return {"pairs": batch.layout.batch // 2}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy over the cosines with all positives."""
        vectors = self.vector(encode(self.network, batch), batch.layout)
        return {"pairs": in_batch_negatives(vectors)}


class CosineRegression:
    """The cosine of a pair is its similarity. Targets: similarity (P,) float, from -1 to 1."""

    def __init__(self, network: Network, vector: SentenceVector) -> None:
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"similarity": 1.0}
        self.vector = vector

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the pairs."""
        return {"similarity": batch.targets["similarity"].shape[0]}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Squared error of the cosine."""
        vectors = self.vector(encode(self.network, batch), batch.layout)
        return {"similarity": cosine_regression(vectors, batch.targets["similarity"])}


class SimilarityOrder(CosineRegression):
    """The cosines of a micro-batch's pairs are in the order of their similarities, whatever their values."""

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Every two pairs in the wrong order cost."""
        vectors = self.vector(encode(self.network, batch), batch.layout)
        return {"similarity": similarity_order(vectors, batch.targets["similarity"])}
