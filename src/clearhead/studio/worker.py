"""The processes in which the studio computes, apart from the one that speaks HTTP.

A process computes one request after another; while it is busy, another has those of other pages. Whatever takes too
long, or whose page was closed, ends with its process; what waits behind it is computed by the next, which was started
beforehand.
"""

import asyncio
import json
import logging
import math
import os
import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, Literal, Protocol

import msgspec

from clearhead.errors import BadCheckpoint, BadInput, ClearheadError, InputTooLong, NotFound, require
from clearhead.inside.page import View, message_page
from clearhead.serve.process import ChildProcess, Lost, frame, pipes, read
from clearhead.studio.pages import ENTRIES
from clearhead.studio.registry import Registry

log = logging.getLogger(__name__)

DEADLINE = 60.0  # seconds in which a page must be computed
_START = 120.0  # seconds in which a process must have started
_SHORT = 0.5  # seconds; what is done by then is not worth ending a process
_AT_ONCE = 2  # requests that are computed at the same time, each by a process with models of its own
Wanted = Literal["about", "data", "html"]


class Late(ClearheadError):
    """A request that took longer than the deadline."""


class Unavailable(ClearheadError):
    """A request whose process was lost, or for which there is none."""


class Failure(ClearheadError):
    """A request at which the studio failed by a fault of its own."""


class TooLong(BadInput):
    """A text that is too long for a picture, with a `shorter` one for each field that would do."""

    def __init__(self, message: str, shorter: Mapping[str, str]) -> None:
        super().__init__(message)
        self.shorter = dict(shorter)


# what is said to the worker


class Start(msgspec.Struct, tag="start"):
    """The first message: the models and the runs."""

    models: list[str] | dict[str, str]
    runs: list[str]


class Ask(msgspec.Struct, tag="ask"):
    """What a page says of a model ("about"), its numbers ("data"), or its picture ("html")."""

    wanted: Wanted
    path: str  # of the page
    given: bytes  # JSON, which has numbers and characters that MessagePack has not


# what it says


class Ready(msgspec.Struct, tag="ready"):
    """The worker can be asked."""


class Told(msgspec.Struct, tag="told"):
    """What was asked for: JSON or HTML."""

    content: bytes


class Refused(msgspec.Struct, tag="refused"):
    """Why it cannot be told."""

    kind: Literal["not_found", "bad", "failed", "lost", "too_long"]
    message: str
    shorter: dict[str, str] = {}  # of what is too long


Heard = Ready | Told | Refused
_to_worker, _from_worker = msgspec.msgpack.Decoder(Start | Ask), msgspec.msgpack.Decoder(Heard)
_ERRORS: dict[str, type[ClearheadError]] = {
    "not_found": NotFound,
    "bad": BadInput,
    "failed": Failure,
    "lost": Unavailable,
}


def as_json(content: Any) -> bytes:
    """JSON in plain ASCII, so that half a surrogate pair in a model's files is no failure; NaN is refused."""
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
    except ValueError:
        raise BadCheckpoint("the model computes numbers that are not finite; its weights are damaged") from None


def compute(registry: Registry, wanted: Wanted, path: str, given: Mapping[str, object]) -> bytes:
    """Answer a request."""
    if wanted == "about":
        return as_json(registry.about(given.get("model"), given.get("skill"), ENTRIES.get(path)))
    try:
        found = registry.answer(ENTRIES[path], given)
    except InputTooLong as error:
        raise TooLong(str(error), registry.shorter(ENTRIES[path], given)) from None
    if wanted == "data":
        return as_json(found.data if isinstance(found, View) else found)
    if not isinstance(found, View):
        return message_page("this page has no picture").encode()
    return found.captioned(registry.caption(ENTRIES[path], given)).html.encode()


# ---- the worker's side --------------------------------------------------------------------------------------------


def main() -> None:
    """Be a worker: read what is asked from stdin, write what came of it to stdout, until the parent has gone."""
    heard, said = pipes()
    start = read(heard, _to_worker)
    if not isinstance(start, Start):
        return
    asked: queue.SimpleQueue[Ask] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(heard, asked), daemon=True).start()
    registry = Registry(start.models, [Path(run) for run in start.runs])
    _say(said, Ready())
    # the default model loads while the first page opens; what is wrong with it, that page says
    with suppress(ClearheadError):
        registry.about()
    while True:
        _say(said, _answer(registry, asked.get()))


def _listen(heard: BinaryIO, asked: "queue.SimpleQueue[Ask]") -> None:
    while (message := read(heard, _to_worker)) is not None:
        if isinstance(message, Ask):
            asked.put(message)
    os._exit(0)  # what is still being computed is of no use to anybody


def _answer(registry: Registry, ask: Ask) -> Told | Refused:
    try:
        return Told(compute(registry, ask.wanted, ask.path, json.loads(ask.given)))
    except TooLong as error:
        return Refused("too_long", _plain(error), error.shorter)
    except NotFound as error:
        return Refused("not_found", _plain(error))
    except ClearheadError as error:
        return Refused("bad", _plain(error))
    except Exception:
        log.exception("a request failed")
        return Refused("failed", "the studio failed at this; its terminal says why")


def _plain(error: ClearheadError) -> str:
    """The sentence; half of a surrogate pair in it could not be sent."""
    return str(error).encode("utf-8", "backslashreplace").decode()


def _say(said: BinaryIO, message: Heard) -> None:
    with suppress(BrokenPipeError):  # the parent has gone, and so will this process
        said.write(frame(message))
        said.flush()


# ---- the parent's side --------------------------------------------------------------------------------------------


class Backend(Protocol):
    """What computes for the application: `StudioProcesses`, one of them, or a registry in this process."""

    async def start(self) -> None:
        """Begin."""
        ...

    async def stop(self) -> None:
        """End at once; who still waits is refused."""
        ...

    async def ask(self, wanted: Wanted, path: str, given: Mapping[str, object]) -> bytes:
        """Have a request answered; cancelled, it is dropped. Raises what `compute` does."""
        ...


class _Job:
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.content: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class StudioProcess(ChildProcess[Heard]):
    """The studio's worker as its parent has it: requests are answered in turn, each within `deadline` seconds."""

    name = "the studio's worker"

    def __init__(
        self, models: Sequence[str] | Mapping[str, str], runs: Sequence[Path], *, deadline: float = DEADLINE
    ) -> None:
        named = dict(models) if isinstance(models, Mapping) else list(models)
        start = Start(named, [str(run) for run in runs])
        # a silent worker computes: the deadline says for how long
        super().__init__(__name__, start, _from_worker, silent=math.inf)
        self._deadline = deadline
        self._jobs: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._reply: asyncio.Future[Told | Refused] | None = None

    @property
    def waiting(self) -> int:
        """How many requests are not answered, the one included that is being computed."""
        return len(self._jobs)

    async def start(self) -> None:
        """Start the worker, and answer from now on."""
        await super().start()
        self._working = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End the worker at once; who still waits is refused."""
        if self._working is not None:
            self._working.cancel()
            self._working = None
        await super().stop()
        while self._jobs:
            _refuse(self._jobs.popleft(), Unavailable("the studio is ending; start it again"))

    async def ask(self, wanted: Wanted, path: str, given: Mapping[str, object]) -> bytes:
        """Have a request answered; cancelled, it is dropped, and ended if it is being computed."""
        if self._working is None:
            raise Unavailable("the studio is not running; start it")
        try:
            job = _Job(Ask(wanted, path, json.dumps(given).encode("ascii")))
        except RecursionError:
            raise BadInput("the body is nested too deep; send one flat object") from None
        self._jobs.append(job)
        self._more.set()
        return await job.content

    async def _work(self) -> None:
        """Have one request after another computed; who has gone while waiting is passed over."""
        while True:
            while not self._jobs:
                self._more.clear()
                await self._more.wait()
            if not self._jobs[0].content.done():
                await self._have_computed(self._jobs[0])
            self._jobs.popleft()

    async def _have_computed(self, job: _Job) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait_until_ready(), _START)
        if not self.ready:
            _refuse(job, Unavailable(f"{self.failed or f'{self.name} does not start'}; start the studio again"))
            return
        if job.content.done():
            return
        self._reply = reply = asyncio.get_running_loop().create_future()
        try:
            self.say(job.ask)
        except Lost:
            self.lose()
        started = monotonic()
        waiting: tuple[asyncio.Future[Any], ...] = (reply, job.content)
        await asyncio.wait(waiting, timeout=self._deadline, return_when=asyncio.FIRST_COMPLETED)
        if job.content.cancelled():
            await asyncio.wait((reply,), timeout=max(0.0, started + _SHORT - monotonic()))
        if not reply.done():
            self._reply = None
            self.replace()
            told = f"this took more than {self._deadline:g} s and was ended"
            _refuse(job, Late(f"{told}; give a shorter text, or start with a longer --timeout"))
            return
        self.prepare()  # so that the next page that is slow, or was closed, costs those behind it nothing
        message = reply.result()
        if isinstance(message, Refused) and message.kind == "too_long":
            _refuse(job, TooLong(message.message, message.shorter))
        elif isinstance(message, Refused):
            _refuse(job, _ERRORS[message.kind](message.message))
        elif not job.content.done():
            job.content.set_result(message.content)

    def hear(self, message: Heard) -> bool:
        """Hand an answer on to who waits for it."""
        if not isinstance(message, Ready) and self._reply is not None and not self._reply.done():
            self._reply.set_result(message)
        return isinstance(message, Ready)

    def lose(self) -> None:
        """Tell who waits for what was being computed."""
        told = "the studio's worker was lost at this, perhaps for want of memory; give a shorter text, or ask again"
        if self._reply is not None and not self._reply.done():
            log.warning("the studio's worker was lost and is started again")
            self._reply.set_result(Refused("lost", told))


class StudioProcesses:
    """A worker, and a second one that is started while the first is busy: what is quick need not wait for the slow."""

    def __init__(self, models: Sequence[str] | Mapping[str, str], runs: Sequence[Path], *, deadline: float) -> None:
        self._new = partial(StudioProcess, models, runs, deadline=deadline)
        self._workers: list[StudioProcess] = []

    async def start(self) -> None:
        """Start a worker, and answer from now on."""
        another = self._new()
        if self._workers:
            another.take_spare(self._workers[0])
        self._workers.append(another)
        await another.start()

    async def stop(self) -> None:
        """End all workers at once; who still waits is refused."""
        ended, self._workers = self._workers, []
        await asyncio.gather(*(one.stop() for one in ended))

    async def ask(self, wanted: Wanted, path: str, given: Mapping[str, object]) -> bytes:
        """Have a request answered by the worker for which fewest wait."""
        require(bool(self._workers), "the studio is not running; start it", Unavailable)
        if len(self._workers) < _AT_ONCE and all(one.waiting for one in self._workers):
            await self.start()
        best = min(self._workers, key=lambda one: (one.failed is not None, one.waiting))
        return await best.ask(wanted, path, given)


def _refuse(job: _Job, error: ClearheadError) -> None:
    if not job.content.done():
        job.content.set_exception(error)
