"""A queue in which everybody gets an equal share, on two levels: fair queueing by start times (Goyal et al. 1996).

Clients take turns by the tokens they have had, and so do the requests of one client: a single text never waits behind
a list of a thousand, nor one client behind another that sends a thousand requests. Time is virtual: it goes by the
tokens that each of those who wait would have had in equal shares, so that nobody waits for ever, either.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(order=True, slots=True)
class _Entry(Generic[Item]):
    time: float  # when its turn is
    number: int
    cost: int = field(compare=False)
    request: Hashable = field(compare=False)
    item: Item = field(compare=False)


@dataclass(slots=True)
class _Client(Generic[Item]):
    """What waits for one client, a heap for each key; `time` is when its own turn is."""

    time: float
    now: float = 0.0
    next: dict[Hashable, float] = field(default_factory=dict)  # the turn of the next item of each request
    waiting: Counter[Hashable] = field(default_factory=Counter)  # items of each request
    heaps: dict[Hashable, list[_Entry[Item]]] = field(default_factory=dict)


class FairQueue(Generic[Item]):
    """Items with a cost, by client, request and key; a batch holds items of one key. Not for several threads at once.

    `dropped` says of an item that nobody waits for it any more; such ones are passed over when their turn comes.
    """

    def __init__(self, dropped: Callable[[Item], bool]) -> None:
        self._dropped = dropped
        self._clients: dict[Hashable, _Client[Item]] = {}
        self._now = 0.0
        self._numbers = count()

    def __bool__(self) -> bool:
        return bool(self._clients)

    def push(self, client: Hashable, request: Hashable, key: Hashable, cost: int, item: Item) -> None:
        """Put an item at the end of its request."""
        own = self._clients.get(client)
        if own is None:  # who asks for nothing saves up nothing
            own = self._clients[client] = _Client(self._now)
        time = max(own.next.get(request, 0.0), own.now)
        own.next[request] = time + cost
        own.waiting[request] += 1
        entry = _Entry(time, next(self._numbers), cost, request, item)
        heapq.heappush(own.heaps.setdefault(key, []), entry)

    def pop(self, budget: Callable[[Item, Item], int]) -> list[Item]:
        """The next items, all of one key: the first by its turn, others while they fit.

        `budget(first, other)` says how much a batch may cost that begins with `first` and gets `other`.
        """
        batch: list[Item] = []
        key: Hashable = None
        spent = 0
        while ready := [one for one in self._clients.items() if not batch or key in one[1].heaps]:
            client, own = min(ready, key=lambda one: one[1].time)
            if not batch:
                key = min(own.heaps, key=lambda one: own.heaps[one][0])
            entry = own.heaps[key][0]
            dropped = self._dropped(entry.item)
            if batch and not dropped and spent + entry.cost > budget(batch[0], entry.item):
                break
            self._take(client, own, key)
            if dropped:
                continue
            spent += entry.cost
            batch.append(entry.item)
            # whoever comes next is counted, too: a newcomer goes before the rest of who was just served
            own.now = max(own.now, entry.time) + entry.cost / (len(own.waiting) + 1)
            self._now = max(self._now, own.time) + entry.cost / (len(self._clients) + 1)
            own.time += entry.cost
        return batch

    def _take(self, client: Hashable, own: _Client[Item], key: Hashable) -> None:
        entry = heapq.heappop(own.heaps[key])
        own.waiting[entry.request] -= 1
        if not own.waiting[entry.request]:
            del own.waiting[entry.request], own.next[entry.request]
        if not own.heaps[key]:
            del own.heaps[key]
        if not own.heaps:
            del self._clients[client]
