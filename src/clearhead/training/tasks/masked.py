"""Pre-training as BERT and ALBERT do it: fill masks, and perhaps judge pairs of sentences."""

from collections.abc import Mapping
from typing import Literal

from torch import nn

from clearhead.data.batch import Batch
from clearhead.nn.network import Network
from clearhead.objectives.loss import Loss
from clearhead.objectives.masked import masked_lm
from clearhead.objectives.pairs import count_pairs, sentence_pairs
from clearhead.training.tasks.run import encode, fill, need_heads, read

Pairs = Literal["next_sentence", "sentence_order"]


class MaskedLM:
    """Fill masks. Targets: where, labels."""

    def __init__(self, network: Network) -> None:
        need_heads(network, "masked_lm")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"masked_lm": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens."""
        return {"masked_lm": batch.targets["labels"].shape[0]}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the head at the masked places alone."""
        logits = fill(self.network, encode(self.network, batch), batch)
        return {"masked_lm": masked_lm(logits, batch.targets["labels"])}


class MaskedLMWithPairs:
    """Fill masks and judge pairs with the head named `kind`. Targets: where, labels, and the one named `kind`."""

    def __init__(self, network: Network, kind: Pairs) -> None:
        need_heads(network, "masked_lm", kind)
        self.network: nn.Module = network
        self.kind = kind
        self.weights: Mapping[str, float] = {"masked_lm": 1.0, kind: 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens and the pairs."""
        return {"masked_lm": batch.targets["labels"].shape[0], self.kind: count_pairs(batch.targets[self.kind])}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the encoder once and both heads on what it gives."""
        hidden = encode(self.network, batch)
        filled, judged = fill(self.network, hidden, batch), read(self.network, self.kind, hidden, batch)
        return {
            "masked_lm": masked_lm(filled, batch.targets["labels"]),
            self.kind: sentence_pairs(judged, batch.targets[self.kind]),
        }
