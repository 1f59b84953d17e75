"""Fine-tuning for answers at tokens: tags, and where an answer starts and ends."""

from collections.abc import Mapping

from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.nn.network import Network
from clearhead.objectives.loss import Loss
from clearhead.objectives.span import answer_span, answerable
from clearhead.objectives.tags import IGNORE, token_tags
from clearhead.training.tasks.run import answer, beside, need_heads


class TagTokens:
    """A tag for each token that has one. Targets: tags (N,), -100 where there is none."""

    def __init__(self, network: Network, *, class_weights: Tensor | None = None, label_smoothing: float = 0.0) -> None:
        need_heads(network, "tags")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"tags": 1.0}
        self.class_weights, self.label_smoothing = class_weights, label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that have a tag."""
        return {"tags": int((batch.targets["tags"] != IGNORE).sum())}

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
