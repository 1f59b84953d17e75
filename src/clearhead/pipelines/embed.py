"""Texts to vectors: any layer or mix of layers, pooled into one vector per text or kept per token."""

# N packed tokens · D width

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.nn.heads import SentenceVector
from clearhead.nn.layout import Packed
from clearhead.nn.record import hidden_states
from clearhead.pipelines.batches import chunks, token_budgets
from clearhead.text import Tokenizer, windows

Combine = Literal["mean", "sum", "concat"]
Vectors = NDArray[np.float32]

# texts sorted together: enough that neighbours in length are many, few enough for any memory
_CHUNK = 16_384
# on a CPU the hidden states of a batch should stay in its cache; a GPU wants to be filled
_BATCH_TOKENS = 1024
_BATCH_TOKENS_GPU = 65_536


def embed(
    encoder: Any,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    vector: SentenceVector,
    layers: Sequence[int] = (-1,),
    combine: Combine = "mean",
    batch_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Vectors:
    """One vector per text, (texts, D); `progress` is told how many texts are done.

    A text longer than the model is read in windows, and its vector is the mean (or maximum) over them, each window
    counting as many times as it has tokens of its own.
    """
    require(len(layers) > 0, "no layers named; layers=[-1] is the last", BadInput)
    device = next(encoder.parameters()).device
    batch_tokens = batch_tokens or (_BATCH_TOKENS if device.type == "cpu" else _BATCH_TOKENS_GPU)
    found = [
        _embed_chunk(encoder, tokenizer, chunk, vector, layers, combine, batch_tokens, progress)
        for chunk in chunks(texts, _CHUNK)
    ]
    width = encoder.width * (len(layers) if combine == "concat" else 1)
    return torch.cat(found).numpy() if found else np.zeros((0, width), np.float32)


def _embed_chunk(
    encoder: Any,
    tokenizer: Tokenizer,
    texts: list[str],
    vector: SentenceVector,
    layers: Sequence[int],
    combine: Combine,
    batch_tokens: int,
    progress: Callable[[int], None] | None,
) -> Tensor:
    inputs, owners, weights = _inputs(tokenizer, texts, encoder.max_length)
    pooled: list[Tensor] = [torch.empty(0)] * len(inputs)
    for group in token_budgets([len(ids) for ids in inputs], batch_tokens):
        hidden, layout = run_packed(encoder, [inputs[i] for i in group], layers, combine)
        for i, row in zip(group, vector(hidden, layout).float().cpu(), strict=True):
            pooled[i] = row
        if progress is not None:
            progress(len({owners[i] for i in group}))
    stacked = torch.stack(pooled)
    if len(inputs) == len(texts):
        return stacked
    return _join_windows(stacked, torch.tensor(owners), torch.tensor(weights), len(texts), vector)


def run_packed(
    encoder: Any, inputs: Sequence[Sequence[int]], layers: Sequence[int], combine: Combine
) -> tuple[Tensor, Packed]:
    """Run sequences of ids as one packed batch: the chosen layers' hidden states, combined, (N, D), and the layout."""
    device = next(encoder.parameters()).device
    ids = torch.tensor([token for sequence in inputs for token in sequence], device=device)
    layout = Packed.of([len(sequence) for sequence in inputs], device)
    with torch.inference_mode():
        if tuple(layers) == (-1,):
            return encoder(ids, layout), layout
        states = hidden_states(encoder, ids, layout)
        low, high = -len(states), len(states) - 1
        for layer in layers:
            require(low <= layer <= high, f"layer {layer} is not there; this model has layers 0 to {high}", BadInput)
        chosen = torch.stack([states[layer] for layer in layers])
    match combine:
        case "mean":
            return chosen.mean(0), layout
        case "sum":
            return chosen.sum(0), layout
        case "concat":
            return torch.cat(list(chosen), -1), layout
        case _:
            raise BadInput(f"combine={combine!r} is not known; choose mean, sum or concat")


def _inputs(tokenizer: Tokenizer, texts: list[str], limit: int) -> tuple[list[list[int]], list[int], list[int]]:
    """Ids of every window of every text, with the text each belongs to and how many tokens it is the best window of."""
    inputs, owners, weights = [], [], []
    for owner, pieces in enumerate(tokenizer.ids_batch(texts)):
        ids = tokenizer.template.wrap_ids(pieces)
        if len(ids) <= limit:
            inputs.append(ids)
            owners.append(owner)
            weights.append(1)
        else:
            for window in windows(tokenizer, texts[owner], length=limit):
                inputs.append(window.encoding.ids)
                owners.append(owner)
                weights.append(len(window.best))
    return inputs, owners, weights


def _join_windows(vectors: Tensor, owners: Tensor, weights: Tensor, count: int, vector: SentenceVector) -> Tensor:
    """Vectors of windows -> vectors of texts."""
    joined = vectors.new_zeros(count, vectors.shape[-1])
    if vector.pooling == "max":
        index = owners.unsqueeze(-1).expand_as(vectors)
        joined = joined.scatter_reduce(0, index, vectors, "amax", include_self=False)
    else:
        total = torch.zeros(count).index_add_(0, owners, weights.float())
        joined.index_add_(0, owners, vectors * (weights / total[owners]).unsqueeze(-1))
    return F.normalize(joined, dim=-1) if vector.normalise else joined
