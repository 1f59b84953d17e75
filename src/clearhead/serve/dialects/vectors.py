"""Vectors as other services write them: numbers or base64, in float32, 8 bits or single bits."""

# D width

import base64
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Number = Literal["float", "int8", "uint8", "binary", "ubinary"]

_MOST = 10.0


def floats(vector: bytes) -> list[float]:
    """The numbers of a vector of float32, little-endian, written in the nine digits that such a number needs."""
    values = np.frombuffer(vector, "<f4").astype(np.float64)
    with np.errstate(divide="ignore"):
        places = 8 - np.floor(np.log10(np.abs(values)))
    places = np.where(np.isfinite(places), places, 0)  # of zero, and of what is no number
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    # a whole number over a power of ten is the float64 nearest to that decimal, which is then all that JSON has of it
    rounded: list[float] = (np.rint(values * up / down) / up * down).tolist()
    return rounded


def numbers_of(vector: bytes, kind: Number) -> NDArray[Any]:
    """A vector (D,) as float32, int8, uint8 = int8 + 128, or bits: ubinary = uint8 (D / 8,), binary = ubinary - 128.

    A bit is 1 where the value is not negative, the first in the highest place of its byte.
    """
    values = np.frombuffer(vector, "<f4")
    match kind:
        case "float":
            return values
        case "int8":
            return _in_steps(values).astype(np.int8)
        case "uint8":
            return (_in_steps(values) + 128).astype(np.uint8)
        case "ubinary":
            return np.packbits(values >= 0)
        case "binary":
            return (np.packbits(values >= 0).astype(np.int16) - 128).astype(np.int8)


def _in_steps(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Whole numbers from -127 to 127, the same steps for every vector, so that those of two requests can be compared.

    The values of a vector of length 1 are mostly about 1 / √D; ten times that is the last step, and what is larger,
    which few models have, is cut to it.
    """
    length, last = float(np.linalg.norm(values)), min(1.0, _MOST / math.sqrt(max(len(values), 1)))
    scaled = values * np.float32(127 / (last * length)) if length > 0 else values
    return np.clip(np.rint(scaled), -127, 127)


def in_base64(vector: bytes, kind: Number = "float") -> str:
    """The bytes of the numbers, little-endian, as text."""
    return base64.b64encode(vector if kind == "float" else numbers_of(vector, kind).tobytes()).decode("ascii")
