"""Which of many vectors are near one another: their cosines in blocks, so that memory stays constant."""

# N vectors · D width

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, require
from clearhead.pipelines.embed import Vectors

_BLOCK = 1024  # rows and columns of one product: 4 MB


def near_pairs(vectors: Vectors, threshold: float) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Pairs of unit vectors whose cosine is at least `threshold`, block by block: places (pairs, 2) and cosines.

    Each pair comes once, the first place smaller than the second.
    """
    require(-1 <= threshold <= 1, f"threshold={threshold} is no cosine; choose one from -1 to 1", BadInput)
    for top in range(0, len(vectors), _BLOCK):
        for left in range(top, len(vectors), _BLOCK):
            cosines = vectors[top : top + _BLOCK] @ vectors[left : left + _BLOCK].T
            rows, columns = np.nonzero(cosines >= threshold)
            if top == left:
                upper = rows < columns
                rows, columns = rows[upper], columns[upper]
            if len(rows):
                # rounding takes the cosine of a vector with itself a little above 1
                yield np.stack([rows + top, columns + left], 1), cosines[rows, columns].clip(-1, 1)
