"""What a worker does with work: admits it by tokens, hands it to threads in turns, and gives back what is done.

There are two lanes. What reads goes through the token queue; what writes decodes token by token in threads of its own,
where requests for the same thing are written together. The cores are shared between the lanes by the system.
"""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Any

import msgspec
import torch

from clearhead.errors import ClearheadError, InputTooLong, NotFound, WrongTask
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import queued_in
from clearhead.serve.fair import FairQueue
from clearhead.serve.perform import estimate, fitted, perform, to_write
from clearhead.serve.queue import Dropped, Speed, Ticket, TokenQueue, ending
from clearhead.serve.registry import Registry
from clearhead.serve.settings import Settings
from clearhead.serve.work import Catalogue, Done, Refusal, Work

log = logging.getLogger(__name__)

Outcome = Done | Refusal
WRITES = ("translate", "generate")
_READERS, _READERS_GPU = 64, 512  # requests that are tokenised, wait in the queue, or are put together, at a time
_WRITERS = 2  # threads that decode, at least
_TOGETHER = 8  # texts that are written together, and so for how long another request waits at the most
_LATE = 0.9  # a request that is expected to wait for so much of its time is not taken


class Engine:
    """The models of a service at work. Results and refusals are told to callbacks, from threads of the engine."""

    def __init__(self, settings: Settings, registry: Registry, on_batch: Callable[[int, float], None] | None = None):
        self.registry = registry
        gpu = torch.device(settings.device).type == "cuda"
        cores, most = torch.get_num_threads(), settings.max_queue_tokens
        self._queue = TokenQueue(gpu=gpu, threads=cores, on_batch=on_batch)
        self._reading = _Lane(self, most, _READERS_GPU if gpu else _READERS, together=0)
        self._writing = _Lane(self, most, max(_WRITERS, cores), together=_TOGETHER)

    def submit(
        self,
        work: Work,
        tell: Callable[[Outcome], None],
        *,
        client: Hashable = None,
        timeout: float = 60.0,
        piece: Callable[[str], None] | None = None,
    ) -> Ticket:
        """Take the work, or refuse it; `tell` gets what came of it, `piece` the text while it is written.

        The ticket can be cancelled, and then nothing is told any more.
        """
        ticket = Ticket(self._queue, client, monotonic() + timeout)
        if not work.items:
            tell(Done(results=[], model=work.model or ""))
            return ticket
        writes = work.use in WRITES or bool(work.options.get("abstractive"))
        lane = self._writing if writes else self._reading
        task = _Task(work, ticket, tell, piece, estimate(work) + (to_write(work) if writes else 0))
        try:
            lane.admit(task, timeout)
        except Refusal as refused:
            tell(refused)
        return ticket

    def catalogue(self) -> Catalogue:
        """What can be asked."""
        return self.registry.catalogue()

    @property
    def tokens(self) -> int:
        """How many tokens were taken and are not done."""
        return self._reading.tokens + self._writing.tokens

    def close(self) -> None:
        """End the threads; what has not begun is refused."""
        for lane in (self._reading, self._writing):
            lane.close()
        self._queue.close()

    def speed(self, lane: "_Lane") -> float:
        """Tokens a second, as measured lately."""
        return self._queue.speed if lane is self._reading else lane.speed

    def run(self, tasks: "list[_Task]", places: list[range]) -> None:
        """Do what the tasks want at these places of their items; several are alike, and written together."""
        try:
            self._run(tasks, places)
        except BaseException as error:
            if len(tasks) > 1:  # nobody fails for others
                for task, own in zip(tasks, places, strict=True):
                    self.run([task], [own])
            else:
                tasks[0].fail(_refusal(error))

    def _run(self, tasks: "list[_Task]", places: list[range]) -> None:
        first, work = tasks[0], tasks[0].work
        first.ticket.check()
        model, name = self.registry.model(work.model, work.use)
        if first.piece is not None:
            self._stream(model, name, first)
            return
        items = [task.work.items[i] for task, own in zip(tasks, places, strict=True) for i in own]
        items, cut = fitted(model, msgspec.structs.replace(work, items=items))
        with queued_in(first.ticket):
            results = iter(
                perform(model, msgspec.structs.replace(work, items=items), self.registry.index, first.ticket.check)
            )
        for task, own in zip(tasks, places, strict=True):
            task.labels = list(model.able("classify").labels or ()) if work.use == "classify" else []
            task.deliver(own, [next(results) for _ in own], name, cut)

    def _stream(self, model: Model, name: str, task: "_Task") -> None:
        (prompt,) = task.work.items
        parts: list[str] = []
        for part in model.stream(prompt, **task.work.options):
            task.ticket.check()
            parts.append(part)
            if task.piece is not None:
                task.piece(part)
        text = "".join(parts)
        options = task.work.options
        written = len(model.tokenizer.ids_batch([text])[0])
        ended = written < int(options.get("max_new_tokens") or 2**31)
        task.deliver(range(1), [{"generated": text, "score": None, "ended": ended, "tokens": written}], name, 0)


def _refusal(error: BaseException) -> Refusal | None:
    """What a client is told of an error; None where nobody listens any more."""
    match error:
        case Refusal():
            return error
        case Dropped():
            return None
        case InputTooLong():
            return Refusal("too_long", str(error))
        case NotFound():
            return Refusal("not_found", str(error))
        case WrongTask():
            return Refusal("wrong_task", str(error), field="model")
        case ClearheadError():
            return Refusal("invalid", str(error))
        case MemoryError() | torch.OutOfMemoryError():
            return Refusal("unavailable", "there was no memory for this; ask for less at once", retry_after=1.0)
    log.error("a request failed", exc_info=error)
    return Refusal("internal", f"the service failed at this ({type(error).__name__}); its log says why")


@dataclass(eq=False, slots=True)
class _Task:
    """Work that was taken, and what is done of it."""

    work: Work
    ticket: Ticket
    tell: Callable[[Outcome], None]
    piece: Callable[[str], None] | None
    cost: int
    results: list[Any] = field(default_factory=list)
    left: int = 0
    cut: int = 0
    written: int = 0
    name: str = ""
    labels: list[str] = field(default_factory=list)
    asked: float = field(default_factory=monotonic)
    started: float = 0.0
    ended: Callable[[], None] = lambda: None
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.left = len(self.work.items)
        self.results = [None] * self.left

    @property
    def over(self) -> bool:
        """Whether nothing is to be done any more."""
        return self.left < 1 or self.ticket.dropped

    def deliver(self, places: range, results: list[Any], name: str, cut: int) -> None:
        """Take some results; with the last one, tell, unless it was told before why there are none."""
        with self.lock:  # parts of it may be written side by side
            if self.left < 1:
                return
            for place, result in zip(places, results, strict=True):
                self.results[place] = result
                for one in result if isinstance(result, list) else [result]:
                    self.written += one.pop("tokens", 0) if self.work.use == "generate" else 0
            self.name, self.cut = name, self.cut + cut
            self.left -= len(places)
            if self.left > 0:
                return
        self._finish(self._done())

    def fail(self, refused: Refusal | None) -> None:
        """Tell why there will be no result, once."""
        with self.lock:
            if self.left < 1:
                return
            self.left = 0
        self._finish(refused)

    def _finish(self, outcome: Outcome | None) -> None:
        """Leave the lane, and tell."""
        self.ended()
        if outcome is not None:
            self.tell(outcome)

    def _done(self) -> Done:
        total, ticket = monotonic() - self.asked, self.ticket
        writes = not ticket.compute_seconds
        queued = ticket.queue_seconds + max(self.started - self.asked, 0.0)
        computed = total - queued if writes else ticket.compute_seconds
        return Done(
            results=self.results,
            model=self.name,
            labels=self.labels,
            read=ticket.read or self.cost,
            written=self.written,
            cut=self.cut,
            tokenise_seconds=max(total - queued - computed, 0.0),
            queue_seconds=queued,
            compute_seconds=computed,
            total_seconds=total,
        )


class _Lane:
    """Threads that take tasks in turns; not more tokens may wait than the limit says, and nobody for longer than helps.

    Tasks whose work is alike are taken `together`, so many texts at a time; with 0, each task is taken whole.
    """

    def __init__(self, engine: Engine, most: int, threads: int, *, together: int) -> None:
        self._engine = engine
        self._most = most
        self._together = together
        self._changed = Condition()
        self._parts: FairQueue[tuple[_Task, range]] = FairQueue(lambda part: self._skipped(part[0]))
        self._closed = False
        self.tokens = 0
        self._speed = Speed()  # of one thread
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def speed(self) -> float:
        """Tokens a second that all threads together write."""
        return float(self._speed) * len(self._threads)

    def admit(self, task: _Task, timeout: float) -> None:
        """Take a task, or raise why not."""
        speed = self._engine.speed(self)
        with self._changed:
            if self._closed:
                raise ending()
            if task.cost > self._most:
                told = f"the request has about {task.cost} tokens, and the queue takes {self._most}"
                raise Refusal("too_large", f"{told}; send it in parts")
            wait = self.tokens / speed
            if self.tokens + task.cost > self._most or wait > timeout * _LATE:
                after = max((self.tokens + task.cost - self._most) / speed, wait - timeout * _LATE / 2, 0.1)
                told = f"{self.tokens} tokens wait already, which takes {wait:.1f} s"
                raise Refusal("overloaded", f"{told}; ask again in {after:.1f} s", retry_after=after)
            self.tokens += task.cost
            task.ended = lambda: self._release(task)
            count, key = len(task.work.items), _alike(task) if self._together else _WHOLE
            size = self._together if isinstance(key, tuple) else count
            for start in range(0, count, size):
                part = range(start, min(start + size, count))
                cost = max(task.cost * len(part) // count, 1)
                self._parts.push(task.ticket.client, task.ticket, key, cost, (task, part))
            self._changed.notify(count)

    def close(self) -> None:
        """End the threads; what has not begun is refused."""
        with self._changed:
            self._closed = True
            while parts := self._parts.pop(lambda first, other: 0):
                for task, _ in parts:
                    task.fail(ending())
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=1.0)  # what is being computed ends with the process

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._parts))
                if self._closed:
                    return
                parts = self._parts.pop(self._budget)
            if not parts:
                continue
            started = monotonic()
            for task, _ in parts:
                task.started = task.started or started
            self._engine.run([task for task, _ in parts], [part for _, part in parts])
            cost = sum(task.cost * len(part) / len(task.work.items) for task, part in parts)
            self._speed.add(cost, monotonic() - started)

    def _budget(self, first: tuple[_Task, range], _: tuple[_Task, range]) -> int:
        task, part = first
        if len(part) >= self._together:  # also where nothing is taken together
            return 0
        return task.cost * self._together // len(task.work.items)

    def _skipped(self, task: _Task) -> bool:
        if task.over and task.left > 0:
            late = Refusal("deadline", "the deadline passed before this was begun; ask for less, or wait longer")
            task.fail(None if task.ticket.cancelled else late)
        return task.over

    def _release(self, task: _Task) -> None:
        with self._changed:
            self.tokens -= task.cost


_WHOLE = "whole"  # the key of tasks that are never taken together


def _alike(task: _Task) -> Hashable:
    """What tasks have in common that can be written together; what nobody else's has where they cannot.

    Draws follow from one text to the next, so that they would depend on others, and what is streamed is written alone.
    """
    work, options = task.work, task.work.options
    draws = work.use != "translate" and "num_beams" not in options
    if task.piece is not None or draws or any(name in options for name in ("temperature", "top_k", "top_p", "seed")):
        return object()
    return (work.use, work.model, work.too_long, work.max_tokens, msgspec.json.encode(options, order="sorted"))
