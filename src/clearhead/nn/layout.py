"""Where the sequences of a batch lie: packed (no padding anywhere) or padded (a rectangle with a mask).

Token-wise parts (linear maps, norms, feed-forwards, embeddings) work on the last dimension and never ask which
layout they are in. Only attention does, and the heads that read one vector per sequence.
"""

# B batch · T longest sequence · N tokens of all sequences together · D width

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import BadInput, require

Backend = Literal["explicit", "sdpa", "varlen"]
Value = TypeVar("Value")


class cached(Generic[Value]):  # noqa: N801, since it is used as a decorator
    """A property that is computed once: functools has one too, but with a lock that compiled code cannot take."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute

    def __get__(self, layout: Any, _: type) -> Value:
        value = self._compute(layout)
        layout.__dict__[self._compute.__name__] = value  # found there from now on, before this descriptor
        return value


@dataclass(frozen=True)
class Packed:
    """Sequences laid end to end: tokens are (N, …), sequence b is tokens[offsets[b] : offsets[b + 1]].

    `lengths` lives on the host, so that slicing needs no transfer; `positions` counts from 0 in each sequence.
    """

    lengths: tuple[int, ...]
    offsets: Tensor  # (B + 1,) int32, because the variable-length kernel rejects int64
    positions: Tensor  # (N,)
    max_length: int
    backend: Backend | None = None

    @classmethod
    def of(
        cls,
        lengths: Sequence[int] | NDArray[np.int64],
        device: torch.device | str = "cpu",
        backend: Backend | None = None,
    ) -> Self:
        """Lay out sequences of these lengths; a length may be 0."""
        # numpy, because torch would start threads for it, which a thread that makes batches should not
        counts = np.asarray(lengths, dtype=np.int64)
        if len(counts) and counts.min() < 0:
            raise BadInput(f"lengths must not be negative, got {counts.tolist()}")
        offsets = np.concatenate([[0], np.cumsum(counts)])
        positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        return cls(
            tuple(counts.tolist()),
            torch.from_numpy(offsets.astype(np.int32)).to(device),
            torch.from_numpy(positions).to(device),
            int(counts.max(initial=0)),
            backend=backend,
        )

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.offsets.shape[0] - 1  # compiled code can let a shape vary, not a tuple's length

    @property
    def _is_one(self) -> bool:
        """Whether there is one sequence, with tokens: a single query need not ask whose they are."""
        return len(self.lengths) == 1 and self.lengths[0] > 0

    @cached
    def runs(self) -> list[tuple[int, int, int]]:
        """Neighbours of equal length as (first token, sequences, length): each is a rectangle without a copy."""
        runs, start = [], 0
        for length, group in groupby(self.lengths):
            count = len(list(group))
            if length:
                runs.append((start, count, length))
            start += count * length
        return runs

    def twice(self) -> Self:
        """The layout of the same sequences twice, one after the other."""
        offsets = torch.cat([self.offsets, self.offsets[1:] + self.offsets[-1]])
        return replace(self, lengths=2 * self.lengths, offsets=offsets, positions=self.positions.repeat(2))

    def using(self, backend: Backend) -> Self:
        """The same layout with this attention back-end."""
        return replace(self, backend=backend)

    def first(self, x: Tensor) -> Tensor:
        """Take each sequence's first token: (N, D) -> (B, D); an empty sequence gives zeros."""
        if self._is_one:
            return x[:1]
        return self._take(x, self.offsets[:-1].long().clamp(max=x.shape[0] - 1))

    def last(self, x: Tensor) -> Tensor:
        """Take each sequence's last token: (N, D) -> (B, D); an empty sequence gives zeros."""
        return self._take(x, self.offsets[1:].long().clamp(min=1) - 1)

    def _take(self, x: Tensor, tokens: Tensor) -> Tensor:
        if not x.shape[0]:
            return x.new_zeros(self.batch, x.shape[-1])
        return x[tokens].where(self.offsets.diff().unsqueeze(-1) > 0, 0.0)

    def mean(self, x: Tensor) -> Tensor:
        """Average each sequence's tokens: (N, D) -> (B, D); an empty sequence gives zeros."""
        if self._is_one:
            return x.mean(0, keepdim=True)
        counts = self.offsets.diff()
        total = x.new_zeros(self.batch, x.shape[-1]).index_add_(0, self._owner, x)
        return total / counts.clamp(min=1).unsqueeze(-1)

    def weighted(self, x: Tensor) -> Tensor:
        """Average in which the n-th token counts n times: (N, D) -> (B, D); an empty sequence gives zeros."""
        counts = self.offsets.diff().long()
        weights = (self.positions + 1).to(x.dtype).unsqueeze(-1)
        total = x.new_zeros(self.batch, x.shape[-1]).index_add_(0, self._owner, x * weights)
        return total / (counts * (counts + 1) // 2).clamp(min=1).unsqueeze(-1)

    def max(self, x: Tensor) -> Tensor:
        """Take the largest value of each feature in each sequence: (N, D) -> (B, D); empty gives zeros."""
        top = x.new_full((self.batch, x.shape[-1]), -torch.inf)
        top = top.scatter_reduce(0, self._owner.unsqueeze(-1).expand_as(x), x, "amax")
        return top.where(self.offsets.diff().unsqueeze(-1) > 0, 0.0)

    def split(self, x: Tensor) -> list[Tensor]:
        """Cut (N, …) into one tensor per sequence."""
        return list(x.split(self.lengths))

    def pad(self, x: Tensor, value: float = 0) -> tuple[Tensor, "Padded"]:
        """Lay the tokens out as a rectangle: (N, …) -> (B, T, …) and its layout. `Padded.pack` is the inverse."""
        keep = torch.arange(self.max_length, device=x.device) < self.offsets.diff().unsqueeze(-1)  # (B, T)
        padded = x.new_full((self.batch * self.max_length, *x.shape[1:]), value).index_copy(0, self.places, x)
        layout = Padded.of(keep, backend=self.backend if self.backend != "varlen" else None)
        return padded.unflatten(0, (self.batch, self.max_length)), layout

    @cached
    def places(self) -> Tensor:
        """Index of each token in the flattened rectangle: (N,), found without waiting for a GPU."""
        return self._owner * self.max_length + self.positions

    @cached
    def _owner(self) -> Tensor:
        """Which sequence each token belongs to, (N,)."""
        return torch.repeat_interleave(self.offsets.diff().long(), output_size=self.positions.shape[0])


@dataclass(frozen=True)
class Padded:
    """A rectangle (B, T, …) in which `keep` (B, T) is True for real tokens; padding may be anywhere.

    `positions` counts real tokens, so that padding on the left moves nothing.
    """

    keep: Tensor  # (B, T) bool
    positions: Tensor  # (B, T)
    backend: Backend | None = None
    complete: bool = False  # known to hold no padding, so that attention needs no mask

    @classmethod
    def of(cls, keep: Tensor, backend: Backend | None = None) -> Self:
        """Lay out a rectangle from its mask of real tokens (bool, or 0 and 1)."""
        require(keep.dim() == 2, f"keep must be (batch, length), got shape {tuple(keep.shape)}", BadInput)
        keep = keep.bool()
        return cls(keep, (keep.long().cumsum(1) - 1).clamp(min=0), backend)

    @classmethod
    def full(cls, ids: Tensor) -> Self:
        """Lay out a rectangle (B, T) without padding."""
        keep = torch.ones(ids.shape, dtype=torch.bool, device=ids.device)
        return replace(cls.of(keep), complete=True)

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.keep.shape[0]

    @property
    def max_length(self) -> int:
        """Length of the rectangle."""
        return self.keep.shape[1]

    @property
    def allowed(self) -> Tensor | None:
        """Attention mask (B, 1, 1, T): True where a key may be attended; None if every key may."""
        return None if self.complete else self.keep[:, None, None, :]

    def using(self, backend: Backend) -> Self:
        """The same layout with this attention back-end."""
        return replace(self, backend=backend)

    def first(self, x: Tensor) -> Tensor:
        """Take each sequence's first real token: (B, T, D) -> (B, D); an empty sequence gives zeros."""
        first = x[torch.arange(self.batch, device=x.device), self.keep.int().argmax(1)]
        return first.where(self.keep.any(1, keepdim=True), 0.0)

    def last(self, x: Tensor) -> Tensor:
        """Take each sequence's last real token: (B, T, D) -> (B, D); an empty sequence gives zeros."""
        columns = torch.arange(self.max_length, device=x.device)
        last = x[torch.arange(self.batch, device=x.device), columns.where(self.keep, 0).amax(1)]
        return last.where(self.keep.any(1, keepdim=True), 0.0)

    def mean(self, x: Tensor) -> Tensor:
        """Average each sequence's real tokens: (B, T, D) -> (B, D); an empty sequence gives zeros."""
        keep = self.keep.unsqueeze(-1)
        return x.where(keep, 0.0).sum(1) / keep.sum(1).clamp(min=1)

    def weighted(self, x: Tensor) -> Tensor:
        """Average in which the n-th token counts n times: (B, T, D) -> (B, D); an empty sequence gives zeros."""
        weights = ((self.positions + 1) * self.keep).unsqueeze(-1)
        return (x.where(self.keep.unsqueeze(-1), 0.0) * weights).sum(1) / weights.sum(1).clamp(min=1)

    def max(self, x: Tensor) -> Tensor:
        """Take the largest value of each feature in each sequence: (B, T, D) -> (B, D); empty gives zeros."""
        top = x.where(self.keep.unsqueeze(-1), -torch.inf).amax(1)
        return top.where(self.keep.any(1, keepdim=True), 0.0)

    def split(self, x: Tensor) -> list[Tensor]:
        """Cut (B, T, …) into the real tokens of each sequence."""
        return [row[keep] for row, keep in zip(x, self.keep, strict=True)]

    def pack(self, x: Tensor) -> tuple[Tensor, Packed]:
        """Drop the padding: (B, T, …) -> (N, …) and its layout. `Packed.pad` is the inverse up to padding."""
        return x[self.keep], Packed.of(self.keep.sum(1).tolist(), x.device, self.backend)


Layout = Packed | Padded


def pack_ids(texts: Sequence[Sequence[int]], what: str, device: torch.device | str) -> tuple[Tensor, Packed]:
    """Pack texts of ids, none of them empty: all ids (N,) and their layout; `what` is their name in a message."""
    empty = next((number for number, text in enumerate(texts) if not len(text)), None)
    require(empty is None, f"{what} {empty} is empty; give it at least one token", BadInput)
    ids = torch.tensor([token for text in texts for token in text], dtype=torch.int64, device=device)
    return ids, Packed.of([len(text) for text in texts], device)
