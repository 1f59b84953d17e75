"""The graph that leads from vector to nearer vector (HNSW, Malkov and Yashunin 2016), where all are too many."""

# P passages · Q queries · D width

from mmap import mmap
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadCheckpoint, explained, require
from clearhead.io import optional
from clearhead.pipelines.embedding import Vectors

_NEIGHBOURS = 16  # of each vector, and twice as many on the lowest level
_LOOKED_AT = 128  # candidates, while the graph is made and while it is searched


class Graph:
    """Vectors in half precision, under keys that stay theirs while others come and go. A saved one is only mapped."""

    def __init__(self, held: Any, content: bytes | mmap = b"") -> None:
        self._held = held
        self._content = content  # which the library reads, and does not keep

    @classmethod
    def build(cls, keys: NDArray[np.int64], vectors: Vectors) -> Self:
        """A graph of these vectors, (P, D): about a minute for 200,000 of them on two threads."""
        library = optional("usearch.index", "approximate search", "search")
        # the inner product of unit vectors is their cosine
        held = library.Index(
            ndim=vectors.shape[1],
            metric="ip",
            dtype="f16",
            connectivity=_NEIGHBOURS,
            expansion_add=_LOOKED_AT,
            expansion_search=_LOOKED_AT,
        )
        held.add(keys, np.asarray(vectors, np.float32))
        return cls(held)

    @classmethod
    def open(cls, path: Path, content: bytes | mmap, count: int, width: int) -> Self | None:
        """A saved graph of so many vectors of this width, as it is mapped; None where the library is not there."""
        try:
            library = optional("usearch.index", "approximate search", "search")
        except LookupError:
            return None
        wrong = f"{path} is no graph of {count:,} vectors of width {width}; build the index again"
        with explained(BadCheckpoint, wrong):
            held = library.Index.restore(content, view=True)
        require(held is not None and (len(held), held.ndim) == (count, width), wrong, BadCheckpoint)
        held.expansion_search = _LOOKED_AT
        return cls(held, content)

    def __len__(self) -> int:
        return len(self._held)

    def changed(self, gone: NDArray[np.int64], keys: NDArray[np.int64], vectors: Vectors) -> Self:
        """The graph without some vectors and with others; this one stays as it is."""
        held = self._held.copy()
        held.expansion_add = held.expansion_search = _LOOKED_AT
        if len(gone):
            held.remove(gone)
        if len(keys):
            held.add(keys, np.asarray(vectors, np.float32))
        return type(self)(held)

    def save(self, path: Path) -> None:
        """Write it to a file, which `open` maps."""
        self._held.save(str(path))

    def nearest(self, wanted: Vectors, top: int) -> list[NDArray[np.int64]]:
        """The keys of about the `top` nearest to each vector, (Q, D)."""
        if not len(self._held):
            return [np.zeros(0, np.int64) for _ in wanted]
        count = min(top, len(self._held))
        return [np.asarray(self._held.search(one, count).keys, np.int64) for one in np.asarray(wanted, np.float32)]
