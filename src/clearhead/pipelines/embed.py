"""Texts to vectors: any layer or mix of layers, pooled into one vector per text. Token vectors: `pipelines.tokens`."""

# B sequences · D width

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, require
from clearhead.nn.heads import SentenceVector
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.engine import Progress, run
from clearhead.pipelines.inputs import inputs_of_texts
from clearhead.pipelines.layers import Combine, LayerMix
from clearhead.text import Tokenizer

Vectors = NDArray[np.float32]


def embed(
    encoder: Any,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    vector: SentenceVector,
    layers: Sequence[int] = (-1,),
    combine: Combine = "mean",
    dimensions: int | None = None,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Vectors:
    """One vector per text, (texts, D), or its first `dimensions`; `progress` is told how many texts are done.

    A text longer than the model is read in windows, and its vector is the mean (or maximum) over them, each window
    counting as many times as it has tokens of its own. What is cut off is cut before the vector is normalised.
    """
    mix = LayerMix(encoder, layers, combine)
    kept = mix.width if dimensions is None else dimensions
    require(0 < kept <= mix.width, f"dimensions={dimensions} cannot be kept of {mix.width}", BadInput)
    reader = _Pooled(mix, vector)
    found = [np.zeros((0, kept), np.float32)]
    for chunk in chunks_of_text(texts):
        inputs = inputs_of_texts(tokenizer, chunk, encoder.max_length)
        pooled = run(reader, inputs, batch_tokens=batch_tokens, progress=progress)
        weights = [[one.weight for one in item] for item in inputs]
        joined = torch.stack([_join(*of, vector) for of in zip(pooled, weights, strict=True)])
        if dimensions is not None:
            joined = F.normalize(joined[:, :kept], dim=-1) if vector.normalise else joined[:, :kept]
        found.append(joined.numpy())
    return np.concatenate(found)


@dataclass(frozen=True)
class _Pooled:
    """Reads the chosen layers and makes one vector of each sequence."""

    mix: LayerMix
    vector: SentenceVector

    @property
    def module(self) -> Any:
        """The encoder."""
        return self.mix.encoder

    def forward(self, batch: Batch) -> Tensor:
        """Packed batch -> (B, D)."""
        return self.vector(self.mix(batch), batch.layout)

    def divide(self, out: Tensor, batch: Batch) -> Sequence[Tensor]:
        """(B, D) -> B vectors."""
        return out.unbind()


def _join(vectors: list[Tensor], weights: list[int], vector: SentenceVector) -> Tensor:
    """Vectors of a text's windows -> the text's vector."""
    if len(vectors) == 1:
        return vectors[0]
    if vector.pooling == "max":
        joined = torch.stack(vectors).amax(0)
    else:
        joined = torch.tensor(weights, dtype=torch.float32) @ torch.stack(vectors) / sum(weights)
    return F.normalize(joined, dim=-1) if vector.normalise else joined
