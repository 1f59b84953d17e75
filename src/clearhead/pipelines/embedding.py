"""Texts and tokens to vectors: from any layers, pooled, and quantised to int8 or bits."""

# N packed tokens · B sequences · P pieces of a text, or vectors · Q queries · D width

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, WrongTask, require
from clearhead.io import Progress
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Pooling, SentenceVector, sentence_vectors
from clearhead.nn.hooks import Combine, hidden_states, mix_layers
from clearhead.nn.layout import Packed
from clearhead.pipelines.elmo import text_layers
from clearhead.pipelines.runner import (
    Forward,
    Prepared,
    merged,
    per_sequence,
    per_token,
    prepare_texts,
    read,
    read_windows,
    windows_of_texts,
)
from clearhead.text import Window

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


def mixed_layers(encoder: Any, layers: Sequence[int] = (-1,), combine: Combine = "mean") -> Forward:
    """The chosen layers (N, D) of a batch, combined; they count from 0, the embeddings, or from -1, the last."""
    require(len(layers) > 0, "no layers named; layers=[-1] is the last", BadInput)
    # an encoder–decoder reads a source beside its text, and has no one stack of layers
    single = not isinstance(encoder, EncoderDecoder)
    require(single, "an encoder–decoder makes no vectors of a text; it can generate and translate", WrongTask)

    return _MixedLayers(encoder, tuple(layers), combine)


@dataclass(frozen=True, slots=True)
class _MixedLayers:
    encoder: Any
    layers: tuple[int, ...]
    combine: Combine

    def __call__(self, batch: Batch) -> Tensor:
        """The combined layers (N, D)."""
        if self.layers == (-1,):
            return self.encoder(batch.ids, batch.layout, batch.segments)
        states = hidden_states(self.encoder, batch.ids, batch.layout, batch.segments)
        return mix_layers(states, self.layers, self.combine)


@dataclass(frozen=True, slots=True)
class _Pooled:
    mix: Forward
    pooling: Pooling
    normalise: bool

    def __call__(self, batch: Batch) -> Tensor:
        """A vector for each sequence (B, D)."""
        return sentence_vectors(self.mix(batch), batch.layout, self.pooling, normalise=self.normalise)


Precision = Literal["float32", "int8", "binary"]
Ranges = NDArray[np.float32]  # (2, D): the lowest and the highest value of each dimension
AnyVectors = NDArray[Any]

_STEPS = 255
_ONES = np.array([byte.bit_count() for byte in range(256)], np.uint8)


def ranges_of(vectors: NDArray[np.float32]) -> Ranges:
    """The range of each dimension over vectors of a kind with those that are to be quantised; a thousand are enough."""
    several = vectors.ndim == 2 and len(vectors) > 1
    require(several, f"ranges are taken over two vectors or more, (vectors, width), not {vectors.shape}", BadInput)
    return np.stack([vectors.min(0), vectors.max(0)]).astype(np.float32)


def quantise(vectors: NDArray[np.float32], precision: Precision, ranges: Ranges | None = None) -> AnyVectors:
    """Vectors (…, D) -> int8 (…, D), or bits packed into uint8 (…, D / 8), 1 where a value is above 0.

    int8 cuts each dimension's range into 255 steps. Without `ranges` they are those of these vectors, and the result
    can only be compared with itself.
    """
    match precision:
        case "float32":
            return vectors
        case "int8":
            low, step = _scale(ranges_of(vectors) if ranges is None else ranges)
            return (np.clip(np.floor((vectors - low) / step), 0, _STEPS) - 128).astype(np.int8)
        case "binary":
            width = vectors.shape[-1]
            require(width % 8 == 0, f"{width} bits do not fill bytes; keep a multiple of 8 dimensions", BadInput)
            return np.packbits(vectors > 0, axis=-1)
        case _:
            raise BadInput(f"precision={precision!r} is not known; choose {', '.join(get_args(Precision))}")


def similarities(queries: AnyVectors, vectors: AnyVectors, *, ranges: Ranges | None = None) -> NDArray[np.float32]:
    """Compare (Q, D) with (P, D), both of one precision -> (Q, P).

    Cosines; of int8, those of the values in the middle of the steps, for which `ranges` are needed; of bits, the share
    that agree minus the share that do not (the cosine of the signs).
    """
    alike = queries.ndim == vectors.ndim == 2 and queries.shape[1] == vectors.shape[1]
    told = f"vectors of {queries.dtype} {queries.shape} and {vectors.dtype} {vectors.shape} cannot be compared"
    todo = "both must be (vectors, width), of one width and precision"
    require(alike and queries.dtype == vectors.dtype, f"{told}; {todo}", BadInput)
    if queries.dtype == np.uint8:
        # in blocks of one query: all differing bits at once would need Q × P × D / 8 bytes
        apart = np.stack([_ONES[query ^ vectors].sum(-1, dtype=np.int64) for query in queries])
        return (1 - 2 * apart / (8 * vectors.shape[1])).astype(np.float32)
    if queries.dtype == np.int8:
        if ranges is None:
            raise BadInput("int8 vectors are compared through the ranges they were quantised with; give ranges=")
        low, step = _scale(ranges)
        queries, vectors = (low + (array.astype(np.float32) + 128.5) * step for array in (queries, vectors))
    return (unit(queries) @ unit(vectors).T).astype(np.float32)


def _scale(ranges: Ranges) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    low, step = ranges[0], (ranges[1] - ranges[0]) / np.float32(_STEPS)
    return low, np.where(step == 0, np.float32(1), step)


def unit(vectors: AnyVectors) -> NDArray[np.float32]:
    """Vectors (…, D) of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


Vectors = NDArray[np.float32]


def embed(
    model: "Model",
    texts: Iterable[str],
    vector: SentenceVector,
    layers: Sequence[int],
    combine: Combine,
    dimensions: int | None,
    batch_tokens: int | None,
    progress: Progress | None,
) -> Vectors:
    """One vector per text, (texts, D), or its first `dimensions`; `progress` is told how many texts are done.

    A text longer than the model is read in windows, and its vector is the mean (or maximum) over them, each window
    counting as many times as it has tokens of its own. What is cut off is cut before the vector is normalised.
    """
    if model.family == "elmo":
        return _embed_words(model, texts, vector, layers, combine, dimensions, progress)
    encoder, mix = model.encoder, mixed_layers(model.encoder, layers, combine)
    kept = _kept(int(encoder.width), layers, combine, dimensions)

    forward = _Pooled(mix, vector.pooling, vector.normalise)

    def join(weights: Tensor, vectors: Tensor) -> Tensor:
        joined = vectors.amax(0) if vector.pooling == "max" else weights @ vectors / weights.sum()
        return F.normalize(joined, dim=-1) if vector.normalise else joined

    def prepare(chunk: list[str]) -> Prepared[None]:
        return prepare_texts(model.tokenizer, chunk, encoder.max_length)

    found: list[Vectors] = []
    for ready, pooled in read(
        encoder, forward, per_sequence, texts, prepare, batch_tokens=batch_tokens, progress=progress
    ):
        vectors = merged(ready.windows, pooled, join)
        found.append(_cut(vectors, kept, vector).numpy())
    if len(found) == 1:
        return np.ascontiguousarray(found[0])  # as it is, but where it was cut
    return np.concatenate(found) if found else np.zeros((0, kept), np.float32)


def _kept(width: int, layers: Sequence[int], combine: Combine, dimensions: int | None) -> int:
    """How many numbers a vector has in the end."""
    width *= len(layers) if combine == "concat" else 1
    kept = width if dimensions is None else dimensions
    require(0 < kept <= width, f"dimensions={dimensions} cannot be kept of {width}", BadInput)
    return kept


def _cut(vectors: Tensor, kept: int, vector: SentenceVector) -> Tensor:
    """The first numbers of vectors (texts, D); what is cut is of length 1 again where the whole was to be."""
    if kept == vectors.shape[1]:
        return vectors
    return F.normalize(vectors[:, :kept], dim=-1) if vector.normalise else vectors[:, :kept]


def _embed_words(
    model: "Model",
    texts: Iterable[str],
    vector: SentenceVector,
    layers: Sequence[int],
    combine: Combine,
    dimensions: int | None,
    progress: Progress | None,
) -> Vectors:
    """ELMo's vectors of texts, pooled over their words; a text without any has the vector 0."""
    kept = _kept(2 * model.config.hidden_size, layers, combine, dimensions)
    found = [np.zeros((0, kept), np.float32)]
    for one in token_vectors(model, texts, layers, combine, progress):
        words = torch.from_numpy(one.vectors)
        whole = vector(words, Packed.of([len(words)])) if len(words) else words.new_zeros(1, words.shape[1])
        found.append(_cut(whole, kept, vector).numpy())
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The pieces of a text, without special tokens: piece i is text[start:end] with (start, end) = offsets[i]."""

    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    vectors: Vectors  # (P, D)

    def over(self, start: int, end: int) -> slice:
        """The pieces that share a character with text[start:end]."""
        touched = [i for i, (first, last) in enumerate(self.offsets) if first < end and last > start]
        return slice(touched[0], touched[-1] + 1) if touched else slice(0)


def token_vectors(
    model: "Model",
    texts: Iterable[str],
    layers: Sequence[int] = (-1,),
    combine: Combine = "mean",
    progress: Progress | None = None,
) -> Iterator[TokenVectors]:
    """The token vectors of each text, in order; of a long text, each token's from the window where it sees most."""
    if model.family == "elmo":
        return _word_vectors(model, texts, layers, combine, progress)
    encoder, tokenizer = model.encoder, model.tokenizer
    forward = mixed_layers(encoder, layers, combine)

    def result(_: str, item: list[Window], tables: list[Tensor]) -> TokenVectors:
        parts = [(one.encoding, position) for one in item for position in one.best]
        rows = torch.cat([table[one.best.start : one.best.stop] for one, table in zip(item, tables, strict=True)])
        offsets = tuple(span for encoding, i in parts if (span := encoding.offsets[i]) is not None)
        return TokenVectors(tuple(encoding.tokens[i] for encoding, i in parts), offsets, rows.numpy())

    def windows(chunk: list[str]) -> list[list[Window]]:
        return windows_of_texts(tokenizer, chunk, encoder.max_length)

    return starmap(result, read_windows(encoder, forward, per_token, texts, windows, progress))


def _word_vectors(
    model: "Model", texts: Iterable[str], layers: Sequence[int], combine: Combine, progress: Progress | None
) -> Iterator[TokenVectors]:
    """ELMo's tokens are words; layer 0 is what their letters say."""
    require(len(layers) > 0, "no layers named; layers=[-1] is the last", BadInput)
    for pieces, states in text_layers(model.network, model.tokenizer, texts):
        mixed = mix_layers(states.unbind(1), layers, combine)
        yield TokenVectors(tuple(pieces.tokens), tuple(pieces.offsets), mixed.numpy())
        if progress is not None:
            progress(1)
