"""Texts that belong together: groups round a text that is near to all of them, or a given number of groups."""

# N vectors · D width

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.errors import BadInput, require
from clearhead.pipelines.embed import Vectors
from clearhead.pipelines.neighbours import near_pairs
from clearhead.text.streams import optional


@dataclass(frozen=True, slots=True)
class Cluster:
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
    require((threshold is None) != (clusters is None), "give threshold= or clusters=, one of the two", BadInput)
    if threshold is not None:
        groups = _communities(vectors, threshold)
    else:
        assert clusters is not None, "one of the two was given"  # noqa: S101
        groups = _means(vectors, clusters)
    found = [Cluster(tuple(sorted(group)), _centre(vectors, sorted(group))) for group in groups]
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


def _centre(vectors: Vectors, members: Sequence[int]) -> int:
    own = vectors[list(members)]
    return members[int((own @ own.mean(0)).argmax())]
