"""Groups joined two by two, the nearest first, where near is the mean cosine between their members."""

# M things

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, require


def average_linkage(
    cosines: NDArray[np.float32], *, threshold: float = -1.0, count: int | None = None
) -> list[list[int]]:
    """(M, M) -> groups of places, the largest first, then by their first member.

    Joins while the best mean cosine is at least `threshold`; with `count`, until that many groups are left.
    """
    size = len(cosines)
    require(
        count is None or 0 < count <= size, f"{size} cannot be put into {count} groups; choose 1 to {size}", BadInput
    )
    groups = {place: [place] for place in range(size)}
    near = cosines.astype(np.float64)
    np.fill_diagonal(near, -np.inf)
    while len(groups) > (count or 1):
        first, second = sorted(map(int, np.unravel_index(near.argmax(), near.shape)))
        if count is None and near[first, second] < threshold:
            break
        own, other = len(groups[first]), len(groups[second])
        near[first] = near[:, first] = (own * near[first] + other * near[second]) / (own + other)
        near[first, first] = -np.inf
        near[second] = near[:, second] = -np.inf
        groups[first] += groups.pop(second)
    return sorted((sorted(group) for group in groups.values()), key=lambda group: (-len(group), group[0]))
