"""Language modelling: the next token, alone or beside a class, the tokens on both sides (ELMo), and translation."""

# N packed tokens · V vocabulary

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.data.following import next_tokens
from clearhead.nn.network import Network
from clearhead.objectives.agreement import agreement
from clearhead.objectives.causal import IGNORE, causal_lm
from clearhead.objectives.classes import one_class
from clearhead.objectives.loss import Loss
from clearhead.training.tasks.run import beside, encode, need_heads, read


class NextToken:
    """The token after each, by a head "causal_lm" or by `network(ids, layout)`, which gives logits (N, V).

    Targets: next (N,), -100 where there is none.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"next": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that are followed by one."""
        return {"next": int((batch.targets["next"] != IGNORE).sum())}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each token."""
        head = ("causal_lm",) if isinstance(self.network, Network) else ()
        logits = self.network(*head, batch.ids, batch.layout)
        return {"next": causal_lm(logits, batch.targets["next"])}


class ClassifyAndContinue:
    """A class for each text, and its next tokens beside (Radford et al. 2018, section 3.2): classes + weight · next.

    The network reads from left to right. Targets: classes (B,) int; what comes next is in the ids.
    """

    def __init__(
        self, network: Network, *, weight: float, class_weights: Tensor | None = None, label_smoothing: float = 0.0
    ) -> None:
        need_heads(network, "classes")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"classes": 1.0, "next": weight}
        self.class_weights, self.label_smoothing = class_weights, label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the texts, and their tokens that are followed by one."""
        followed = batch.tokens - sum(length > 0 for length in batch.layout.lengths)
        return {"classes": batch.layout.batch, "next": followed}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Read once: the last hidden state tells the class, every one the token after it."""
        hidden = encode(self.network, batch)
        logits = read(self.network, "classes", hidden, batch)
        self.class_weights = beside(logits, self.class_weights)
        classes = one_class(
            logits, batch.targets["classes"], class_weights=self.class_weights, label_smoothing=self.label_smoothing
        )
        table = self.network.get_parameter("encoder.embeddings.token.weight")  # also the output matrix
        return {"classes": classes, "next": causal_lm(hidden @ table.mT, next_tokens(batch.ids, batch.layout))}


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
    """Each word of the target from its source and the words before. Targets: none but the ids; it needs a `source`.

    With `agreement`, every pair is read twice while the network learns, and both readings should say the same.
    """

    def __init__(self, network: nn.Module, *, label_smoothing: float = 0.0, agreement: float = 0.0) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"words": 1.0, "agreement": agreement} if agreement else {"words": 1.0}
        self.label_smoothing = label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the words of the targets."""
        return dict.fromkeys(self.weights, batch.tokens)

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each word."""
        twice = "agreement" in self.weights and self.network.training
        read = batch.twice() if twice else batch
        logits = write(self.network, read)
        words = causal_lm(logits, read.ids, label_smoothing=self.label_smoothing)
        if not twice:
            return {"words": words}
        return {"words": Loss(words.total / 2, batch.tokens, words.metrics), "agreement": agreement(logits)}


def write(network: Any, batch: Batch) -> Tensor:
    """Teacher forcing: logits (N, V) for `batch.ids`, each from `batch.source` and the ids before it.

    A network with a head "causal_lm" is given the ids after its start token; another does that itself.
    """
    if not isinstance(network, Network):
        return network(batch)
    before = batch.ids.roll(1).masked_fill(batch.layout.positions == 0, network.encoder.config.start)
    return network("causal_lm", before, batch.layout, batch.source)
