"""A .npy file that is written while the vectors come, so that its size needs no memory."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


class VectorFile:
    """Vectors are added some at a time; the header, which says how many there are, is written again at the end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._like: NDArray[Any] | None = None
        self.rows = 0

    @property
    def width(self) -> int:
        """Numbers in a vector; 0 if there is none."""
        return 0 if self._like is None else self._like.shape[1]

    def add(self, vectors: NDArray[Any]) -> None:
        """Write (vectors, width)."""
        if self._like is None:
            self._like = vectors[:0]
            self._header()
        self._file.write(np.ascontiguousarray(vectors).data)
        self.rows += len(vectors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._like is None:
            self._like = np.zeros((0, 0), np.float32)
        self._file.seek(0)
        self._header()
        self._file.close()

    def _header(self) -> None:
        assert self._like is not None  # noqa: S101
        shape = (self.rows, self._like.shape[1])
        # numpy leaves room for the number of rows to grow, so that the second header is as long as the first
        npy.write_array_header_1_0(
            self._file, {"descr": npy.dtype_to_descr(self._like.dtype), "fortran_order": False, "shape": shape}
        )
