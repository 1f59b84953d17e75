"""A queue in which everybody gets an equal share: start-time fair queueing (Goyal et al. 1996) on two levels.

Clients take turns by the tokens they have had, and so do the requests of one client: a single text never waits behind
a list of a thousand, nor one client behind another that sends a thousand requests.
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
    time: float  # when its turn is, in tokens that its client has had
    number: int
    cost: int = field(compare=False)
    request: Hashable = field(compare=False)
    item: Item = field(compare=False)


@dataclass(slots=True)
class _Client(Generic[Item]):
    """What waits for one client, a heap for each key; `time` is what it has had beside the others, in tokens."""

    time: float
    now: float = 0.0  # the turn that was last
    last: dict[Hashable, float] = field(default_factory=dict)  # the turn of the last item of each request
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
        own.last[request] = max(own.last.get(request, 0.0), own.now) + cost
        own.waiting[request] += 1
        entry = _Entry(own.last[request], next(self._numbers), cost, request, item)
        heapq.heappush(own.heaps.setdefault(key, []), entry)

    def pop(self, budget: Callable[[Item], int]) -> list[Item]:
        """The next items, all of one key: the first by its turn, others while they fit the budget of the first."""
        batch: list[Item] = []
        key: Hashable = None
        room = 0
        while ready := [one for one in self._clients.items() if not batch or key in one[1].heaps]:
            client, own = min(ready, key=lambda one: one[1].time)
            if not batch:
                key = min(own.heaps, key=lambda one: own.heaps[one][0])
            entry = own.heaps[key][0]
            dropped = self._dropped(entry.item)
            if batch and not dropped and entry.cost > room:
                break
            self._take(client, own, key)
            if dropped:
                continue
            room = (room if batch else budget(entry.item)) - entry.cost
            batch.append(entry.item)
            own.now = max(own.now, entry.time - entry.cost)
            self._now = own.time
            own.time += entry.cost
        return batch

    def _take(self, client: Hashable, own: _Client[Item], key: Hashable) -> None:
        entry = heapq.heappop(own.heaps[key])
        own.waiting[entry.request] -= 1
        if not own.waiting[entry.request]:
            del own.waiting[entry.request], own.last[entry.request]
        if not own.heaps[key]:
            del own.heaps[key]
        if not own.heaps:
            del self._clients[client]
