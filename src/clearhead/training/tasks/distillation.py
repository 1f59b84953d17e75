"""A model learns from another: from its answers (DistilBERT), attention (MiniLM), classes, or vectors of texts."""

# N packed tokens · H heads · K head width

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import require
from clearhead.nn.heads import Network, SentenceVector
from clearhead.nn.hooks import record
from clearhead.objectives.classification import in_batch_negatives
from clearhead.objectives.distillation import (
    VECTOR_WEIGHTS,
    WEIGHTS,
    cosine_distance,
    relations,
    soft_similarities,
    soft_targets,
)
from clearhead.objectives.language import masked_lm
from clearhead.objectives.loss import Loss
from clearhead.training.tasks.classification import Classify, VectorTask
from clearhead.training.tasks.task import encode, need_heads, read


class Distillation:
    """Agree with a teacher's answers and hidden states, and fill masks. Targets: where, labels."""

    def __init__(self, student: Network, teacher: Network) -> None:
        need_heads(student, "masked_lm", who="the student")
        need_heads(teacher, "masked_lm", who="the teacher")
        _need_same(student, teacher, "vocab_size", "hidden_size")
        self.network: nn.Module = student
        self.weights: Mapping[str, float] = WEIGHTS
        self.teacher = teacher.eval().requires_grad_(False)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count all tokens, and the masked ones."""
        return {**dict.fromkeys(self.weights, batch.tokens), "masked_lm": batch.targets["labels"].shape[0]}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run both on the same masked text."""
        hidden, logits = _everywhere(self.network, batch)
        with torch.no_grad():
            their_hidden, their_logits = _everywhere(self.teacher.to(batch.ids.device), batch)
        return {
            "soft_targets": soft_targets(logits, their_logits),
            "masked_lm": masked_lm(logits[batch.targets["where"]], batch.targets["labels"]),
            "cosine": cosine_distance(hidden, their_hidden),
        }


class RelationDistillation:
    """Relate the tokens of a text as a teacher's last layer does; widths, heads and depths may differ. Targets: none.

    Whatever the student has after the queries, keys and values of its last layer gets no gradient.
    """

    def __init__(self, student: Network, teacher: Network, *, relation_heads: int) -> None:
        _need_same(student, teacher, "vocab_size")
        self.network: nn.Module = student
        self.weights: Mapping[str, float] = {"queries": 1.0, "keys": 1.0, "values": 1.0}
        self.teacher, self.relation_heads = teacher.eval().requires_grad_(False), relation_heads

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count all tokens, for each part."""
        return dict.fromkeys(self.weights, batch.tokens)

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run both and compare the queries, keys and values of their last layers."""
        ours = _attended(self.network, batch)
        with torch.no_grad():
            theirs = _attended(self.teacher.to(batch.ids.device), batch)
        return {
            name: relations(student, teacher, batch.layout, self.relation_heads)
            for name, student, teacher in zip(self.weights, ours, theirs, strict=True)
        }


class ClassDistillation(Classify):
    """Tell classes apart as a fine-tuned teacher does, and as the labels say (Hinton et al. 2015).

    Targets: teacher (B, L), its log-probabilities, made beforehand; classes (B,) int.
    """

    def __init__(
        self,
        network: Network,
        *,
        soft: float,
        temperature: float,
        class_weights: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(network, class_weights=class_weights, label_smoothing=label_smoothing)
        self.weights = {"soft_targets": soft, "classes": 1 - soft}
        self.temperature = temperature

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the texts, for either part."""
        return dict.fromkeys(self.weights, batch.layout.batch)

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the student alone, once."""
        logits = self._logits(batch)
        soft = soft_targets(logits, batch.targets["teacher"], self.temperature)
        return {"soft_targets": soft, "classes": self._loss(logits, batch)}


class VectorDistillation(VectorTask):
    """Give texts the vectors that a teacher gave them; relate anchors to others as it does, and to their own most.

    Targets: teacher (P, texts, D), whose vectors were made beforehand.
    """

    part = "vectors"

    def __init__(self, network: Network, vector: SentenceVector, *, texts: int) -> None:
        super().__init__(network, vector, texts=texts)
        self.weights = VECTOR_WEIGHTS

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count all texts, and the anchors."""
        return {**dict.fromkeys(self.weights, self._count(batch)), "vectors": batch.layout.batch}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the student alone."""
        ours, theirs = self._logits(batch), batch.targets["teacher"].transpose(0, 1).flatten(0, 1)
        return {
            "vectors": cosine_distance(ours, theirs),
            "similarities": soft_similarities(ours, theirs, texts=self.texts),
            "pairs": in_batch_negatives(ours, texts=self.texts),
        }


def _everywhere(network: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Run the encoder and the masked-LM head on every token."""
    hidden = encode(network, batch)
    return hidden, read(network, "masked_lm", hidden, batch)


def _attended(network: Any, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Run the encoder and give the queries, keys and values of its last layer, (N, H, K) each."""
    with record(network.encoder.blocks[-1].attention.attend) as calls:
        encode(network, batch)
    # ALBERT's layers are one and the same, called once for each; DeBERTa and XLNet attend in rectangles
    q, k, v = (x if x.dim() == 3 else x.flatten(0, 1)[batch.layout.places] for x in calls[-1].inputs[:3])
    return q, k, v


def _need_same(student: Network, teacher: Network, *fields: str) -> None:
    for field in fields:
        ours, theirs = (getattr(network.encoder.config, field) for network in (student, teacher))
        message = f"{field} is {ours} in the student and {theirs} in the teacher; this distillation needs them equal"
        require(ours == theirs, message)
