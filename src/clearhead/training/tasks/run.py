"""What every task does with a network: look whether it has the heads, run its encoder and a head."""

# N packed tokens · M masked tokens · D width · V vocabulary

from typing import Any

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import WrongTask, require
from clearhead.nn.network import Network


def need_heads(network: Network, *names: str, who: str = "this model") -> None:
    """Refuse a network that lacks a head, before anything is spent."""
    for name in names:
        has = ", ".join(network.heads) or "none"
        require(name in network.heads, f"{who} has no head {name!r} to train; it has {has}", WrongTask)


def encode(network: Any, batch: Batch) -> Tensor:
    """Run the encoder: hidden states (N, D)."""
    return network.encoder(batch.ids, batch.layout, batch.segments)


def answer(network: Any, head: str, batch: Batch) -> Tensor:
    """Run the encoder and one head."""
    return network(head, batch.ids, batch.layout, batch.segments)


def read(network: Any, head: str, hidden: Tensor, batch: Batch) -> Tensor:
    """Run one head on hidden states that are there already."""
    return network.heads[head](hidden, batch.layout)


def fill(network: Any, hidden: Tensor, batch: Batch) -> Tensor:
    """Run the masked-LM head at the masked places alone: logits (M, V)."""
    return network.heads["masked_lm"](hidden, batch.layout, batch.targets["where"])


def beside(logits: Tensor, class_weights: Tensor | None) -> Tensor | None:
    """Bring class weights to where the logits are; nothing happens from the second time on."""
    return None if class_weights is None else class_weights.to(logits.device, torch.float32)
