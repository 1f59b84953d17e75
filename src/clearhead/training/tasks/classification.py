"""Fine-tuning: classes, numbers, choices, tags, answer spans, sentence vectors."""

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.data.pretraining import next_tokens
from clearhead.nn.heads import Network, SentenceVector
from clearhead.objectives import classification as objectives
from clearhead.objectives.language import causal_lm
from clearhead.objectives.loss import Loss, cross_entropy
from clearhead.training.tasks.task import HeadTask, encode, read


class Classify(HeadTask):
    """One of two or more classes, of a text or a pair of texts. Targets: classes (B,) int."""

    head = part = "classes"
    targets = ("classes",)

    def __init__(self, network: Network, *, class_weights: Tensor | None = None, label_smoothing: float = 0.0) -> None:
        super().__init__(network)
        self.class_weights, self.label_smoothing = class_weights, label_smoothing

    def _loss(self, logits: Tensor, batch: Batch) -> Loss:
        if self.class_weights is not None:  # nothing happens from the second time on
            self.class_weights = self.class_weights.to(logits.device, torch.float32)
        weights, smoothing = self.class_weights, self.label_smoothing
        return cross_entropy(logits, batch.targets[self.part], class_weights=weights, label_smoothing=smoothing)


class ClassifyWithLM(Classify):
    """A class for each text, and its next tokens beside (Radford et al. 2018, section 3.2): classes + weight · next.

    The network reads from left to right. Targets: classes (B,) int; what comes next is in the ids.
    """

    def __init__(
        self, network: Network, *, weight: float, class_weights: Tensor | None = None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__(network, class_weights=class_weights, label_smoothing=label_smoothing)
        self.weights = {"classes": 1.0, "next": weight}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the texts, and their tokens that are followed by one."""
        followed = batch.tokens - sum(length > 0 for length in batch.layout.lengths)
        return {"classes": batch.layout.batch, "next": followed}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Read once: the last hidden state tells the class, every one the token after it."""
        hidden = encode(self.network, batch)
        classes = self._loss(read(self.network, "classes", hidden, batch), batch)
        table = self.network.get_parameter("encoder.embeddings.token.weight")  # also the output matrix
        return {"classes": classes, "next": causal_lm(hidden @ table.mT, next_tokens(batch.ids, batch.layout))}


class TagTokens(Classify):
    """A tag for each token that has one. Targets: tags (N,), IGNORE_INDEX where there is none."""

    head = part = "tags"
    targets = ("tags",)


class MultiLabel(HeadTask):
    """Any number of classes for each sequence. Targets: classes (B, L) multi-hot."""

    head = part = "classes"
    targets = ("classes",)
    objective = staticmethod(objectives.multi_label)


class Regress(HeadTask):
    """A number for each sequence, by the head "classes" with one output. Targets: scores (B,) float."""

    head, part, targets = "classes", "scores", ("scores",)
    objective = staticmethod(objectives.regression)


class MultipleChoice(HeadTask):
    """The right one of each question's candidates. Targets: choice (Q,), choices (Q,)."""

    head = part = "choice"
    targets = ("choices", "choice")
    objective = staticmethod(objectives.multiple_choice)


class FindSpans(HeadTask):
    """The start and the end of an answer. Targets: starts (B,), ends (B,); position 0 says that there is none."""

    head = part = "span"

    def _count(self, batch: Batch) -> int:
        return int(objectives.answerable(batch.layout, batch.targets["starts"], batch.targets["ends"]).sum())

    def _loss(self, logits: Tensor, batch: Batch) -> Loss:
        return objectives.answer_span(logits, batch.layout, batch.targets["starts"], batch.targets["ends"])


class VectorTask(HeadTask):
    """What compares the vectors of texts; `texts` of them make an item, all first ones of a batch coming first."""

    def __init__(self, network: Network, vector: SentenceVector, *, texts: int = 2) -> None:
        super().__init__(network)
        self.vector, self.texts = vector, texts

    def _count(self, batch: Batch) -> int:
        return batch.layout.batch // self.texts

    def _logits(self, batch: Batch) -> Tensor:
        return self.vector(encode(self.network, batch), batch.layout)


class Contrastive(VectorTask):
    """Each anchor finds its positive among those of the micro-batch, whose size therefore matters. Targets: none.

    Of items of three texts, the third is one that it might be taken for.
    """

    part = "pairs"

    def _loss(self, logits: Tensor, batch: Batch) -> Loss:
        return objectives.in_batch_negatives(logits, texts=self.texts)


class CosineRegression(VectorTask):
    """The cosine of a pair is its similarity. Targets: similarity (P,) float, from -1 to 1."""

    part, targets = "similarity", ("similarity",)
    objective = staticmethod(objectives.cosine_regression)


class SimilarityRanking(VectorTask):
    """The cosines of a micro-batch's pairs are in the order of their similarities, whatever their values.

    Targets: similarity (P,) float.
    """

    part, targets = "similarity", ("similarity",)
    objective = staticmethod(objectives.similarity_ranking)
