"""Making the next batches in the background while the present ones are learnt from."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self

from clearhead.data.batch import Batch
from clearhead.data.source import Source


class Prefetch:
    """A source with a thread that works ahead; batches are the same with or without it."""

    def __init__(self, source: Source, *, pin: bool) -> None:
        self._source = source
        self._pin = pin
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._coming: dict[int, Future[Batch]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def take(self, wanted: Iterable[int], expected: Iterable[int] = ()) -> list[Batch]:
        """Give batches by number and start on those expected next; a wrong guess costs time, nothing else."""
        now = {index: self._coming.get(index) or self._submit(index) for index in wanted}
        self._coming = {index: self._coming.get(index) or self._submit(index) for index in expected}
        return [future.result() for future in now.values()]

    def _submit(self, index: int) -> Future[Batch]:
        return self._thread.submit(self._make, index)

    def _make(self, index: int) -> Batch:
        batch = self._source.batch(index)
        return pinned(batch) if self._pin else batch


def pinned(batch: Batch) -> Batch:
    """Put a batch into page-locked memory, from which a copy to the GPU need not be waited for."""
    layout = replace(
        batch.layout, offsets=batch.layout.offsets.pin_memory(), positions=batch.layout.positions.pin_memory()
    )
    return replace(
        batch,
        ids=batch.ids.pin_memory(),
        layout=layout,
        segments=None if batch.segments is None else batch.segments.pin_memory(),
        targets={name: target.pin_memory() for name, target in batch.targets.items()},
        source=None if batch.source is None else pinned(batch.source),
    )
