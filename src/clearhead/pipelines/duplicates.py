"""Texts that say the same: copies, letter for letter, and texts whose vectors are nearly the same."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pipelines.embed import Vectors
from clearhead.pipelines.neighbours import near_pairs


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Text `second` repeats text `first`, which stands before it; a copy has score 1, others their cosine."""

    first: int
    second: int
    score: float
    exact: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"first": self.first, "second": self.second, "score": self.score, "exact": self.exact}


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
