"""Smaller vectors: int8, a quarter of the size, and binary, one bit a dimension; and how such vectors are compared.

The numbers are those of sentence-transformers' `quantize_embeddings` for "int8" and "ubinary".
"""

# Q and P vectors · D width

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, require

Precision = Literal["float32", "int8", "binary"]
Ranges = NDArray[np.float32]  # (2, D): the lowest and the highest value of each dimension
AnyVectors = NDArray[Any]

_STEPS = 255
_ONES = np.array([byte.bit_count() for byte in range(256)], np.uint8)


def ranges_of(vectors: NDArray[np.float32]) -> Ranges:
    """The range of each dimension over vectors of a kind with those that are to be quantised; a thousand are enough."""
    require(
        vectors.ndim == 2 and len(vectors) > 1,
        f"ranges are taken over two vectors or more, (vectors, width), not {vectors.shape}",
        BadInput,
    )
    return np.stack([vectors.min(0), vectors.max(0)]).astype(np.float32)


def quantise(vectors: NDArray[np.float32], precision: Precision, ranges: Ranges | None = None) -> AnyVectors:
    """Vectors (…, D) -> int8 (…, D), or bits packed into uint8 (…, D / 8), 1 where a value is above 0.

    int8 cuts each dimension's range into 255 steps. Without `ranges` they are those of these vectors, and the result
    can only be compared with itself.
    """
    known = get_args(Precision)
    require(precision in known, f"precision={precision!r} is not known; choose {', '.join(known)}", BadInput)
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


def similarities(queries: AnyVectors, vectors: AnyVectors, *, ranges: Ranges | None = None) -> NDArray[np.float32]:
    """Compare (Q, D) with (P, D), both of one precision -> (Q, P).

    Cosines; of int8, those of the values in the middle of the steps, for which `ranges` are needed; of bits, the share
    that agree minus the share that do not (the cosine of the signs).
    """
    require(
        queries.ndim == vectors.ndim == 2 and queries.shape[1] == vectors.shape[1] and queries.dtype == vectors.dtype,
        f"vectors of {queries.dtype} {queries.shape} and {vectors.dtype} {vectors.shape} cannot be compared; "
        "both must be (vectors, width), of one width and precision",
        BadInput,
    )
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
