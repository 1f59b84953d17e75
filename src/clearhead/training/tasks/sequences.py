"""Fine-tuning for one answer per sequence: a class, several, a number, a choice."""

from collections.abc import Mapping

from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.nn.network import Network
from clearhead.objectives.choice import right_choice
from clearhead.objectives.classes import many_classes, one_class
from clearhead.objectives.loss import Loss
from clearhead.objectives.regression import regression
from clearhead.training.tasks.run import answer, beside, need_heads


class Classify:
    """One of two or more classes, of a text or a pair of texts. Targets: classes (B,) int."""

    def __init__(self, network: Network, *, class_weights: Tensor | None = None, label_smoothing: float = 0.0) -> None:
        need_heads(network, "classes")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"classes": 1.0}
        self.class_weights, self.label_smoothing = class_weights, label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the sequences."""
        return {"classes": batch.layout.batch}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy."""
        logits = answer(self.network, "classes", batch)
        self.class_weights = beside(logits, self.class_weights)
        loss = one_class(
            logits, batch.targets["classes"], class_weights=self.class_weights, label_smoothing=self.label_smoothing
        )
        return {"classes": loss}


class MultiLabel:
    """Any number of classes for each sequence. Targets: classes (B, L) multi-hot."""

    def __init__(self, network: Network) -> None:
        need_heads(network, "classes")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"classes": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the questions: sequences times labels."""
        return {"classes": batch.targets["classes"].numel()}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Binary cross-entropy of each label."""
        return {"classes": many_classes(answer(self.network, "classes", batch), batch.targets["classes"])}


class Regress:
    """A number for each sequence, by the head "classes" with one output. Targets: scores (B,) float."""

    def __init__(self, network: Network) -> None:
        need_heads(network, "classes")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"scores": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the sequences."""
        return {"scores": batch.layout.batch}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Squared error."""
        return {"scores": regression(answer(self.network, "classes", batch), batch.targets["scores"])}


class Choose:
    """The right one of each question's candidates. Targets: choice (Q,), choices (Q,)."""

    def __init__(self, network: Network) -> None:
        need_heads(network, "choice")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"choice": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the questions."""
        return {"choice": batch.targets["choice"].shape[0]}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy over each question's own candidates."""
        logits = answer(self.network, "choice", batch)
        return {"choice": right_choice(logits, batch.targets["choices"], batch.targets["choice"])}
