"""A stream cut into lists, so that a stream of any length needs the memory of one."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def chunks(items: Iterable[Item], size: int, weigh: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """Give lists that weigh `size` or, by their last item, more."""
    chunk: list[Item] = []
    weight = 0
    for item in items:
        chunk.append(item)
        weight += weigh(item)
        if weight >= size:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk
