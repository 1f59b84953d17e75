"""The process that computes, apart from the one that speaks HTTP: it can be lost, and is then started anew.

Both speak through pipes, in frames of a length and a message in MessagePack. A worker whose parent has gone ends.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

import msgspec

from clearhead.serve.settings import Settings
from clearhead.serve.work import Catalogue, Done, Reason, Refusal, Work

log = logging.getLogger(__name__)

_LENGTH = 4  # bytes that say how long a frame is
_TICK = 0.5  # seconds between two reports of a worker
_SILENT = 120.0  # seconds without a report after which a worker counts as lost; loading a large model is silent, too
_LOST = "the worker was lost and is being started again; ask again"


# what is said to a worker


class Start(msgspec.Struct, tag="start"):
    """The first message: what the service was started with."""

    settings: Settings


class Ask(msgspec.Struct, tag="ask"):
    """Do some work; with `stream`, text goes back while it is written."""

    id: int
    work: Work
    client: str
    timeout: float
    stream: bool = False


class Cancel(msgspec.Struct, tag="cancel"):
    """Nobody waits for that work any more."""

    id: int


# what it says


class Answer(msgspec.Struct, tag="answer"):
    """The work is done."""

    id: int
    done: Done


class Refused(msgspec.Struct, tag="refused"):
    """The work will not be done."""

    id: int
    reason: Reason
    message: str
    field: str | None = None
    retry_after: float | None = None


class Piece(msgspec.Struct, tag="piece"):
    """Some text of what is being written."""

    id: int
    text: str


class Report(msgspec.Struct, tag="report"):
    """How the worker is, now and then: what waits, which batches there were (tokens, seconds), what can be asked."""

    queue_tokens: int
    memory: int
    batches: list[tuple[int, float]]
    catalogue: Catalogue | None = None  # where it has changed


class Failed(msgspec.Struct, tag="failed"):
    """The worker cannot start, and why."""

    message: str


Said = Start | Ask | Cancel
Heard = Answer | Refused | Piece | Report | Failed
_to_worker, _from_worker = msgspec.msgpack.Decoder(Said), msgspec.msgpack.Decoder(Heard)


def _frame(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(_LENGTH, "little") + body


# ---- the worker's side --------------------------------------------------------------------------------------------


def main() -> None:
    """Be a worker: read what is asked from stdin, write what came of it to stdout, until the parent has gone."""
    # what anything prints must not get between the frames
    heard, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal it goes to the parent too, which decides
    start = _read(heard)
    if not isinstance(start, Start):
        return
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    _Worker(start.settings, said).serve(heard)
    os._exit(0)  # what is still being computed is of no use to anybody


def _read(stream: BinaryIO) -> Said | None:
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "little")
    body = stream.read(size)
    return _to_worker.decode(body) if len(body) == size else None


class _Worker:
    def __init__(self, settings: Settings, said: BinaryIO) -> None:
        self._settings = settings
        self._said = said
        self._saying = threading.Lock()
        self._batches: list[tuple[int, float]] = []
        self._tickets: dict[int, Any] = {}

    def say(self, message: Heard) -> None:
        with self._saying, suppress(BrokenPipeError):  # the parent has gone, and so will this process
            self._said.write(_frame(message))
            self._said.flush()

    def serve(self, heard: BinaryIO) -> None:
        from clearhead.errors import ClearheadError
        from clearhead.serve.engine import Engine
        from clearhead.serve.registry import Registry

        try:
            registry = Registry(self._settings)
            registry.check()
            engine = Engine(self._settings, registry, on_batch=lambda *batch: self._batches.append(batch))
            if self._settings.preload:
                registry.preload()
        except (ClearheadError, OSError) as error:
            self.say(Failed(str(error)))
            return
        threading.Thread(target=self._report, args=(engine,), daemon=True).start()
        while (message := _read(heard)) is not None:
            if isinstance(message, Ask):
                self._ask(engine, message)
            elif isinstance(message, Cancel) and (ticket := self._tickets.pop(message.id, None)) is not None:
                ticket.cancel()

    def _ask(self, engine: Any, ask: Ask) -> None:
        told = threading.Event()

        def tell(outcome: Done | Refusal) -> None:
            told.set()
            self._tickets.pop(ask.id, None)
            if isinstance(outcome, Done):
                self.say(Answer(ask.id, outcome))
            else:
                parts = (outcome.reason, outcome.message, outcome.field, outcome.retry_after)
                self.say(Refused(ask.id, *parts))

        piece = (lambda text: self.say(Piece(ask.id, text))) if ask.stream else None
        ticket = engine.submit(ask.work, tell, client=ask.client, timeout=ask.timeout, piece=piece)
        self._tickets[ask.id] = ticket
        if told.is_set():
            self._tickets.pop(ask.id, None)

    def _report(self, engine: Any) -> None:
        known: Catalogue | None = None
        while True:
            batches, self._batches = self._batches, []
            catalogue, memory = engine.catalogue(), resident_memory()
            self.say(Report(engine.tokens, memory, batches, catalogue if catalogue != known else None))
            known = catalogue
            engine.registry.let_go(memory)
            if self._settings.reload:
                engine.registry.reload()
            threading.Event().wait(_TICK)


def resident_memory() -> int:
    """The bytes that this process has in memory; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


# ---- the parent's side --------------------------------------------------------------------------------------------


class WorkerProcess:
    """A worker as its parent has it: work goes in, what is done comes out, and a lost worker is replaced.

    `on_report` is told what the worker reports, `on_loss` that one was lost.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_report: Callable[[Report], None] = lambda report: None,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._on_report = on_report
        self._on_loss = on_loss
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Queue[Answer | Refused | Piece]] = {}
        self._number = 0
        self._ready = asyncio.Event()
        self._heard = 0.0
        self._keeping: asyncio.Task[None] | None = None
        self.catalogue: Catalogue | None = None
        self.failed: str | None = None  # why it cannot start

    @property
    def ready(self) -> bool:
        """Whether it would answer now."""
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the worker, and keep it going."""
        self._keeping = asyncio.create_task(self._keep())

    async def wait_until_ready(self) -> None:
        """Wait until it answers; `failed` says why it never will."""
        while not self.ready and self.failed is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), 0.05)

    async def stop(self) -> None:
        """End the worker at once; who still waits is refused."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
        self._kill()
        if self._process is not None:
            await self._process.wait()
        self._lose("the service is ending; ask again")

    async def perform(self, work: Work, *, client: str, timeout: float) -> Done:
        """Have work done; cancelled, it is dropped. Raises `Refusal`."""
        async for message in self._asked(work, client, timeout, stream=False):
            if isinstance(message, Answer):
                return message.done
        raise Refusal("unavailable", _LOST, retry_after=1.0)

    async def stream(self, work: Work, *, client: str, timeout: float) -> AsyncIterator[str | Done]:
        """Have text written: its pieces as they come, then what was done."""
        async for message in self._asked(work, client, timeout, stream=True):
            yield message.text if isinstance(message, Piece) else message.done

    async def _asked(self, work: Work, client: str, timeout: float, *, stream: bool) -> AsyncIterator[Answer | Piece]:
        if not self.ready:
            told = self.failed or "the models are being loaded"
            raise Refusal("unavailable", f"{told}; ask again", retry_after=1.0)
        self._number += 1
        number, own = self._number, asyncio.Queue[Answer | Refused | Piece]()
        self._waiting[number] = own
        until, over = monotonic() + timeout, False
        try:
            self._say(Ask(number, work, client, timeout, stream))
            while not over:
                try:
                    # the worker keeps the deadline; where it does not answer at all, we do, a little later
                    message = await asyncio.wait_for(own.get(), max(until - monotonic(), 0.0) + 0.5)
                except TimeoutError:
                    told = "the deadline passed before the answer was ready; ask for less, or wait longer"
                    raise Refusal("deadline", told) from None
                over = not isinstance(message, Piece)
                if isinstance(message, Refused):
                    raise Refusal(message.reason, message.message, field=message.field, retry_after=message.retry_after)
                yield message
        finally:
            self._waiting.pop(number, None)
            if not over:
                with suppress(Refusal):
                    self._say(Cancel(number))

    def _say(self, message: Said) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            raise Refusal("unavailable", _LOST, retry_after=1.0)
        process.stdin.write(_frame(message))

    async def _keep(self) -> None:
        """Start a worker whenever there is none; one that cannot start at all is not tried again."""
        pause = 0.0
        while self.failed is None:
            await asyncio.sleep(pause)
            started = monotonic()
            command = [sys.executable, "-c", "from clearhead.serve.worker import main; main()"]
            pipe = asyncio.subprocess.PIPE
            try:
                self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
            except OSError as error:
                self.failed = f"the worker cannot be started: {error}"
                return
            self._say(Start(self._settings))
            watch = asyncio.create_task(self._watch())
            try:
                await self._listen(self._process)
            finally:
                watch.cancel()
                self._kill()
            await self._process.wait()
            self._lose(_LOST)
            if self.failed is None:
                log.warning("the worker was lost and is started again")
                self._on_loss()
            # one that dies as soon as it lives is given time
            pause = 0.0 if monotonic() - started > 10 else min(max(2 * pause, 0.1), 10.0)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101
        self._heard = monotonic()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await process.stdout.readexactly(_LENGTH), "little")
                message = _from_worker.decode(await process.stdout.readexactly(size))
                self._heard = monotonic()
                if isinstance(message, Report):
                    self.catalogue = message.catalogue or self.catalogue
                    self._ready.set()
                    self._on_report(message)
                elif isinstance(message, Failed):
                    self.failed = message.message
                elif (waiting := self._waiting.get(message.id)) is not None:
                    waiting.put_nowait(message)

    async def _watch(self) -> None:
        """End a worker that says nothing any more."""
        while True:
            await asyncio.sleep(_TICK)
            if monotonic() - self._heard > _SILENT:
                log.error("the worker has said nothing for %d s and is ended", _SILENT)
                self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def _lose(self, why: str) -> None:
        """Refuse all that is waited for."""
        self._ready.clear()
        for number, waiting in list(self._waiting.items()):
            waiting.put_nowait(Refused(number, "unavailable", why, retry_after=1.0))
