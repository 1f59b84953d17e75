"""The queue of a worker: inputs of all requests, packed into batches by tokens, in turns.

There is no waiting window: batches fill while others compute. A request is a `Ticket`, and all that its thread runs on
an encoder comes here through `pipelines.runner.queued_in`; so windows of long texts, passages of a search and texts of
a list are all alike, and a batch is made of whoever waits for the same forward pass.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from threading import Barrier, Condition, Event, Thread
from time import monotonic

import torch
from torch import Tensor, nn

from clearhead.pipelines.runner import Divide, Forward, Input, compute_batch
from clearhead.serve.fair import FairQueue
from clearhead.serve.work import Refusal

# Tokens of a batch on a CPU: from some hundred on, more of them are hardly read faster, and whoever comes next waits
# until one of the cores is free. Beside a client in a hurry, others are read in smaller bites.
BATCH_TOKENS = 256
BITE_TOKENS = 64
BATCH_TOKENS_GPU = 65_536
_STEPS = ((64, 4), (256, 16), (float("inf"), 64))  # tokens of a batch are a multiple of the second, up to the first
_HURRY_TOKENS = 512  # a request of no more than these is in a hurry
_HURRY_SECONDS = 1.0  # for so long after one, another is expected
_GPU_THREADS = 2  # one makes the next batch ready while the other's is computed
_FIRST_SPEED = 1000.0  # tokens a second, before anything was measured
_KEPT = 0.98  # how much of what was measured counts still after another batch


class Speed:
    """Tokens a second, by the last batches: large ones count for more, and a slow first one is soon forgotten."""

    def __init__(self) -> None:
        self._tokens, self._seconds = _FIRST_SPEED, 1.0

    def add(self, tokens: float, seconds: float) -> None:
        """Take a batch into account."""
        self._tokens = self._tokens * _KEPT + tokens
        self._seconds = self._seconds * _KEPT + seconds

    def __float__(self) -> float:
        return self._tokens / max(self._seconds, 1e-6)


def ending() -> Refusal:
    """Why nothing more is taken."""
    return Refusal("unavailable", "the service is ending; ask again", retry_after=1.0)


class Dropped(Exception):
    """Nobody waits for the result any more."""


class Ticket:
    """A request in the queue: who asked, until when it is of use, and where its time went."""

    def __init__(self, queue: "TokenQueue", client: Hashable, deadline: float) -> None:
        self.client = client
        self.deadline = deadline  # of `monotonic`
        self.read = 0  # tokens
        self.queue_seconds = self.compute_seconds = 0.0
        self._queue = queue
        self.cancelled = False
        self._jobs: list[_Job] = []

    def compute(self, module: nn.Module, forward: Forward, divide: Divide, inputs: Sequence[Input]) -> Sequence[Tensor]:
        """Wait for what the queue makes of some inputs; see `pipelines.runner.Queue`."""
        self.check()
        job = _Job(self, module, forward, divide, inputs)
        self.read += job.tokens
        self._jobs.append(job)
        if inputs:
            self._queue.put(job)
            job.done.wait()
        self._jobs.remove(job)
        self.check()
        if job.error is not None:
            raise job.error
        self.queue_seconds += max(job.started - job.asked, 0.0)
        self.compute_seconds += monotonic() - job.started
        return job.results

    @property
    def dropped(self) -> bool:
        """Whether nobody waits for it any more, since the client has gone or the deadline has passed."""
        return self.cancelled or monotonic() > self.deadline

    def check(self, _: int = 0) -> None:
        """Stop here if nobody waits; where work is not queued, it may be told of progress."""
        if self.cancelled:
            raise Dropped
        if monotonic() > self.deadline:
            raise Refusal("deadline", "the deadline passed before the answer was ready; ask for less, or wait longer")

    def cancel(self) -> None:
        """Say that nobody waits any more: what was not begun is not computed."""
        self.cancelled = True
        for job in list(self._jobs):
            job.done.set()


@dataclass(slots=True, eq=False)
class _Job:
    """Inputs of one request for the same forward pass; `done` is set when all are computed, or one failed."""

    ticket: Ticket
    module: nn.Module
    forward: Forward
    divide: Divide
    inputs: Sequence[Input]
    results: list[Tensor] = field(default_factory=list)
    error: BaseException | None = None
    done: Event = field(default_factory=Event)
    asked: float = field(default_factory=monotonic)
    started: float = 0.0
    left: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        self.left = len(self.inputs)
        self.results = [torch.empty(0)] * self.left
        self.tokens = sum(len(one.ids) for one in self.inputs)


Place = tuple[_Job, int]  # one input of a job


class TokenQueue:
    """Threads that compute what is put in: on a CPU one for each core, and one that has all cores while it is alone.

    `on_batch` is told of every batch: its tokens and its seconds.
    """

    def __init__(
        self, *, gpu: bool = False, threads: int | None = None, on_batch: Callable[[int, float], None] | None = None
    ) -> None:
        self._on_batch = on_batch
        self._gpu = gpu
        self._cores = threads or torch.get_num_threads()
        self._changed = Condition()
        self._places: FairQueue[Place] = FairQueue(self._dropped)
        self._queued = 0  # tokens that were put in and are not yet being computed
        self._computing = 0  # batches
        self._hurry = 0.0  # when somebody in a hurry was here
        self._speed = Speed()  # of one thread
        self._closed = False
        sizes = [self._cores] * _GPU_THREADS if gpu else [1] * self._cores + [self._cores] * (self._cores > 1)
        # torch gives a thread the common number when it first asks, and setting its own sets the common one
        ready = Barrier(len(sizes) + 1)
        self._threads = [Thread(target=self._work, args=(size, ready), daemon=True) for size in sizes]
        for thread in self._threads:
            thread.start()
        ready.wait()
        ready.wait()
        # OpenMP's threads wait for their next part awake only where they are not more than the cores: the one thread
        # that takes all cores is quick as long as no other has helpers
        torch.set_num_threads(1)

    @property
    def tokens(self) -> int:
        """How many tokens wait."""
        return self._queued

    @property
    def speed(self) -> float:
        """Tokens a second that all threads together compute, by the last batches."""
        return float(self._speed) * (1 if self._gpu else self._cores)

    def put(self, job: _Job) -> None:
        """Put all inputs of a job into the queue, each for itself."""
        ticket, tokens = job.ticket, job.tokens
        with self._changed:
            if self._closed:
                raise ending()
            for place, one in enumerate(job.inputs):
                self._places.push(ticket.client, ticket, job.forward, len(one.ids), (job, place))
            self._queued += tokens
            if tokens <= _HURRY_TOKENS:
                self._hurry = monotonic()
            self._changed.notify_all()

    def close(self) -> None:
        """Let the threads end; what still waits is refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        while batch := self._places.pop(lambda first, other: BATCH_TOKENS):
            for job, _ in batch:
                job.error = ending()
                job.done.set()

    def _work(self, threads: int, ready: Barrier) -> None:
        torch.get_num_threads()
        ready.wait()
        torch.set_num_threads(threads)
        ready.wait()
        wide = threads > 1
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._has_work(wide))
                if self._closed:
                    return
                batch = self._places.pop(self._budget)
                tokens = sum(len(job.inputs[place].ids) for job, place in batch)
                self._queued -= tokens
                self._computing += 1
            started = monotonic()
            try:
                if batch:
                    self._compute(batch, started)
            finally:
                seconds = monotonic() - started
                with self._changed:
                    self._computing -= 1
                    if tokens:
                        self._speed.add(tokens, seconds * (self._cores if wide and not self._gpu else 1))
                    if self._places:
                        self._changed.notify_all()
                if tokens and self._on_batch is not None:
                    self._on_batch(tokens, seconds)

    def _has_work(self, wide: bool) -> bool:
        """Whether there is something for a thread: little, and nothing beside it, for the one that takes all cores."""
        if not self._places or self._gpu:
            return bool(self._places)
        alone = self._cores > 1 and not self._computing and self._queued <= BATCH_TOKENS
        return alone if wide else not alone

    def _dropped(self, place: Place) -> bool:
        job, number = place
        if not job.done.is_set() and job.ticket.dropped:
            job.done.set()  # its thread finds out why
        if job.done.is_set():
            self._queued -= len(job.inputs[number].ids)
        return job.done.is_set()

    def _budget(self, first: Place, other: Place) -> int:
        """The tokens of a batch: whoever is in a hurry waits neither for a long batch nor in one."""
        if self._gpu:
            return BATCH_TOKENS_GPU
        hurried = first[0].tokens <= _HURRY_TOKENS
        if other[0].tokens <= _HURRY_TOKENS or monotonic() - self._hurry > _HURRY_SECONDS:
            return BATCH_TOKENS
        return 0 if hurried else BITE_TOKENS

    def _compute(self, batch: Sequence[Place], started: float) -> None:
        for job, _ in batch:
            job.started = job.started or started
        try:
            self._deliver(batch, _computed(batch, rounded=not self._gpu))
        except BaseException as error:
            # of a batch that failed, each request is tried by itself: nobody fails for others
            requests = [list(group) for _, group in groupby(sorted(batch, key=_number), key=_number)]
            for own in requests:
                job = own[0][0]
                try:
                    if len(requests) == 1:
                        raise error
                    self._deliver(own, _computed(own, rounded=not self._gpu))
                except BaseException as its_own:
                    job.error = its_own
                    job.done.set()

    def _deliver(self, batch: Sequence[Place], parts: Sequence[Tensor]) -> None:
        for (job, place), part in zip(batch, parts, strict=True):
            # a part is a view of its batch, which would stay in memory as long as the slowest of its mates
            job.results[place] = part.clone() if len(batch) > 1 else part
        with self._changed:  # other threads compute other inputs of the same jobs
            for job, _ in batch:
                job.left -= 1
                if not job.left:
                    job.done.set()


def _number(place: Place) -> int:
    return id(place[0])


def _computed(batch: Sequence[Place], *, rounded: bool) -> Sequence[Tensor]:
    first = batch[0][0]
    inputs = [job.inputs[place] for job, place in batch]
    tokens = sum(len(one.ids) for one in inputs)
    # oneDNN makes a kernel for each number of rows, and keeps a thousand of them, each with memory of its own. A few
    # tokens that belong to nobody leave it a few dozen numbers to see.
    spare = -tokens % next(step for most, step in _STEPS if tokens <= most) if rounded else 0
    if spare:
        inputs.append(Input([inputs[0].ids[0]] * spare, [0] * spare))
    parts = compute_batch(first.module, first.forward, first.divide, inputs)
    return parts[: len(batch)]
