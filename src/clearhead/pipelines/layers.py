"""Hidden states of one layer, or of several made into one."""

# N packed tokens · D width

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, WrongTask, require
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.record import hidden_states

Combine = Literal["mean", "sum", "concat"]


def last_layers(encoder: Any) -> range:
    """The last four layers, or as many as there are."""
    return range(-min(4, len(getattr(encoder, "blocks", (encoder,)))), 0)


@dataclass(frozen=True)
class LayerMix:
    """The chosen layers of an encoder, combined; they count from 0, the embeddings, or from -1, the last."""

    encoder: Any
    layers: Sequence[int] = (-1,)
    combine: Combine = "mean"

    def __post_init__(self) -> None:
        require(len(self.layers) > 0, "no layers named; layers=[-1] is the last", BadInput)
        # an encoder–decoder reads a source beside its text, and has no one stack of layers
        single = not isinstance(self.encoder, EncoderDecoder)
        require(single, "an encoder–decoder makes no vectors of a text; it can generate and translate", WrongTask)

    @property
    def width(self) -> int:
        """How many numbers a token's vector has."""
        return int(self.encoder.width) * (len(self.layers) if self.combine == "concat" else 1)

    def __call__(self, batch: Batch) -> Tensor:
        """Packed batch -> (N, D)."""
        if tuple(self.layers) == (-1,):
            return self.encoder(batch.ids, batch.layout, batch.segments)
        states = hidden_states(self.encoder, batch.ids, batch.layout, batch.segments)
        low, high = -len(states), len(states) - 1
        for layer in self.layers:
            require(low <= layer <= high, f"layer {layer} is not there; this model has layers 0 to {high}", BadInput)
        chosen = torch.stack([states[layer] for layer in self.layers])
        match self.combine:
            case "mean":
                return chosen.mean(0)
            case "sum":
                return chosen.sum(0)
            case "concat":
                return torch.cat(list(chosen), -1)
            case _:
                raise BadInput(f"combine={self.combine!r} is not known; choose mean, sum or concat")
