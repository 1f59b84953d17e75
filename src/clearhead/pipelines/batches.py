"""Which inputs run together: sorted by length, filled up to a number of tokens, so that short texts never wait."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def token_budgets(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group indices, longest first, so that each group has at most `budget` tokens (or is a single input).

    Neighbours have equal or nearly equal length, which the packed layout turns into few attention calls.
    """
    group: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if group and tokens + lengths[index] > budget:
            yield group
            group, tokens = [], 0
        group.append(index)
        tokens += lengths[index]
    if group:
        yield group


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut a stream into lists, so that a stream of any length needs the memory of one."""
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk
