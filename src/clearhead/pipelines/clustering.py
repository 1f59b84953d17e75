"""Texts that belong together, and texts that say the same."""

# N vectors · D width

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, require
from clearhead.io import Record, optional
from clearhead.pipelines.embedding import Vectors

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


@dataclass(frozen=True, slots=True)
class Cluster(Record):
    """The places of its texts, in order; `centre` is the one nearest to their mean."""

    members: tuple[int, ...]
    centre: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"size": len(self.members), "centre": self.centre, "members": list(self.members)}


def cluster(vectors: Vectors, *, threshold: float | None = None, clusters: int | None = None) -> list[Cluster]:
    """Group unit vectors, every one in exactly one group, the largest group first.

    With `threshold`, the text that is that near (by cosine) to most others takes them as its group, then the next
    among those left; a text without neighbours is a group of its own. With `clusters`, k-means of that many.
    """
    if threshold is not None and clusters is None:
        groups = _communities(vectors, threshold)
    elif clusters is not None and threshold is None:
        groups = _means(vectors, clusters)
    else:
        raise BadInput("give threshold= or clusters=, one of the two")
    found = []
    for members in map(sorted, groups):
        own = vectors[members]
        found.append(Cluster(tuple(members), members[int((own @ own.mean(0)).argmax())]))
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _communities(vectors: Vectors, threshold: float) -> list[list[int]]:
    near: list[list[int]] = [[place] for place in range(len(vectors))]
    for pairs, _ in near_pairs(vectors, threshold):
        for first, second in pairs.tolist():
            near[first].append(second)
            near[second].append(first)
    taken: set[int] = set()
    groups = []
    # the sort is stable: of equally many neighbours, the text that stands first
    for place in sorted(range(len(near)), key=lambda place: -len(near[place])):
        if place not in taken:
            groups.append([one for one in near[place] if one not in taken])
            taken.update(groups[-1])
    return groups


def _means(vectors: Vectors, clusters: int) -> list[list[int]]:
    count = len(vectors)
    require(0 < clusters <= count, f"{count} texts cannot form clusters={clusters}; choose 1 to {count}", BadInput)
    library = optional("sklearn.cluster", "k-means", "search")
    labels = library.KMeans(clusters, n_init=10, random_state=0).fit_predict(vectors)
    groups = [np.flatnonzero(labels == label).tolist() for label in range(clusters)]
    return [group for group in groups if group]  # fewer, if fewer texts are different


@dataclass(frozen=True, slots=True)
class Duplicate(Record):
    """Text `second` repeats text `first`, which stands before it; a copy has score 1, others their cosine."""

    first: int
    second: int
    score: float
    exact: bool


def duplicates(texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors], threshold: float) -> list[Duplicate]:
    """Every copy with the first text it is a copy of, and every pair of different texts that are near each other.

    `embed` gives unit vectors; it is asked for each different text once. Sorted by the second of a pair.
    """
    firsts: dict[str, int] = {}
    places = [firsts.setdefault(text, place) for place, text in enumerate(texts)]
    found = [Duplicate(first, place, 1.0, True) for place, first in enumerate(places) if first != place]
    different = np.array(list(firsts.values()), np.int64)
    for pairs, cosines in near_pairs(embed(list(firsts)), threshold):
        for (first, second), cosine in zip(different[pairs].tolist(), cosines.tolist(), strict=True):
            found.append(Duplicate(first, second, cosine, False))
    return sorted(found, key=lambda one: (one.second, one.first))


def kept(count: int, found: Sequence[Duplicate]) -> Iterator[int]:
    """The places of texts that repeat none of those kept before them; `found` as `duplicates` sorts it."""
    earlier: dict[int, list[int]] = {}
    for one in found:
        earlier.setdefault(one.second, []).append(one.first)
    dropped: set[int] = set()
    for place in range(count):
        if all(first in dropped for first in earlier.get(place, [])):
            yield place
        else:
            dropped.add(place)
