"""Fine-tuning: classes, numbers, choices, tags, answer spans, sentence vectors."""

from collections.abc import Mapping

from torch import Tensor, nn

from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.nn.heads import Network, SentenceVector
from clearhead.objectives.classification import (
    answer_span,
    answerable,
    cosine_regression,
    in_batch_negatives,
    many_classes,
    one_class,
    regression,
    right_choice,
    similarity_order,
    token_tags,
)
from clearhead.objectives.loss import Loss
from clearhead.training.tasks.task import answer, beside, encode, need_heads


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


class TagTokens:
    """A tag for each token that has one. Targets: tags (N,), -100 where there is none."""

    def __init__(self, network: Network, *, class_weights: Tensor | None = None, label_smoothing: float = 0.0) -> None:
        need_heads(network, "tags")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"tags": 1.0}
        self.class_weights, self.label_smoothing = class_weights, label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that have a tag."""
        return {"tags": int((batch.targets["tags"] != IGNORE_INDEX).sum())}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each tagged token."""
        logits = answer(self.network, "tags", batch)
        self.class_weights = beside(logits, self.class_weights)
        loss = token_tags(
            logits, batch.targets["tags"], class_weights=self.class_weights, label_smoothing=self.label_smoothing
        )
        return {"tags": loss}


class FindSpans:
    """The start and the end of an answer. Targets: starts (B,), ends (B,); position 0 says that there is none."""

    def __init__(self, network: Network) -> None:
        need_heads(network, "span")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"span": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the sequences that hold their start and end."""
        inside = answerable(batch.layout, batch.targets["starts"], batch.targets["ends"])
        return {"span": int(inside.sum())}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy over each sequence's own tokens."""
        logits = answer(self.network, "span", batch)
        return {"span": answer_span(logits, batch.layout, batch.targets["starts"], batch.targets["ends"])}


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
