"""Texts to vectors: any layer or mix of layers, pooled into one vector per text or kept per token."""

# N packed tokens · B sequences · D width

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, require
from clearhead.nn.heads import SentenceVector
from clearhead.nn.record import hidden_states
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.engine import Progress, run
from clearhead.pipelines.inputs import inputs_of_texts
from clearhead.text import Tokenizer

Combine = Literal["mean", "sum", "concat"]
Vectors = NDArray[np.float32]


def embed(
    encoder: Any,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    vector: SentenceVector,
    layers: Sequence[int] = (-1,),
    combine: Combine = "mean",
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Vectors:
    """One vector per text, (texts, D); `progress` is told how many texts are done.

    A text longer than the model is read in windows, and its vector is the mean (or maximum) over them, each window
    counting as many times as it has tokens of its own.
    """
    require(len(layers) > 0, "no layers named; layers=[-1] is the last", BadInput)
    reader = _Pooled(encoder, vector, layers, combine)
    found = [np.zeros((0, encoder.width * (len(layers) if combine == "concat" else 1)), np.float32)]
    for chunk in chunks_of_text(texts):
        inputs = inputs_of_texts(tokenizer, chunk, encoder.max_length)
        pooled = run(reader, inputs, batch_tokens=batch_tokens, progress=progress)
        weights = [[one.weight for one in item] for item in inputs]
        found.append(torch.stack([_join(*of, vector) for of in zip(pooled, weights, strict=True)]).numpy())
    return np.concatenate(found)


@dataclass(frozen=True)
class _Pooled:
    """Reads the chosen layers and makes one vector of each sequence."""

    module: Any
    vector: SentenceVector
    layers: Sequence[int]
    combine: Combine

    def forward(self, batch: Batch) -> Tensor:
        """Packed batch -> (B, D)."""
        return self.vector(self._hidden(batch), batch.layout)

    def divide(self, out: Tensor, batch: Batch) -> Sequence[Tensor]:
        """(B, D) -> B vectors."""
        return out.unbind()

    def _hidden(self, batch: Batch) -> Tensor:
        """The chosen layers' hidden states, combined: (N, D)."""
        if tuple(self.layers) == (-1,):
            return self.module(batch.ids, batch.layout)
        states = hidden_states(self.module, batch.ids, batch.layout)
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


def _join(vectors: list[Tensor], weights: list[int], vector: SentenceVector) -> Tensor:
    """Vectors of a text's windows -> the text's vector."""
    if len(vectors) == 1:
        return vectors[0]
    if vector.pooling == "max":
        joined = torch.stack(vectors).amax(0)
    else:
        joined = torch.tensor(weights, dtype=torch.float32) @ torch.stack(vectors) / sum(weights)
    return F.normalize(joined, dim=-1) if vector.normalise else joined
