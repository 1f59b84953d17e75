"""Words guessed in any order, as XLNet does it."""

# N packed tokens · M asked tokens · V vocabulary

from collections.abc import Mapping
from typing import Any

from torch import nn

from clearhead.data.batch import Batch
from clearhead.errors import BadInput
from clearhead.nn.network import Network
from clearhead.objectives.loss import Loss
from clearhead.objectives.masked import masked_lm
from clearhead.training.tasks.run import need_heads


class GuessInOrder:
    """Each asked word from those before it in its text's order. Targets: place; the source's: rank."""

    def __init__(self, network: Network) -> None:
        need_heads(network, "permutation_lm")
        self.network: nn.Module = network
        self.weights: Mapping[str, float] = {"words": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the asked words."""
        return {"words": batch.tokens}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Let the questions ask the text: cross-entropy of each."""
        text = batch.source
        if text is None:
            raise BadInput("the batch holds questions and no text; make it with data.permutation")
        counts = batch.layout.offsets.diff().long()
        firsts = text.layout.offsets[:-1].long().repeat_interleave(counts, output_size=batch.tokens)
        where, rank = firsts + batch.targets["place"], text.targets["rank"]
        network: Any = self.network
        hidden = network.encoder.guess(text.ids, text.layout, rank, where, batch.layout, text.segments)
        logits = network.heads["permutation_lm"](hidden, batch.layout)  # (M, V)
        return {"words": masked_lm(logits, batch.ids)}
