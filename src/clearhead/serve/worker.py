"""The process that computes, apart from the one that speaks HTTP: it can be lost, and is then started anew.

How both speak, and how a lost one is replaced, is in `process`.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

import msgspec

from clearhead.serve.process import ChildProcess, Lost, frame, pipes, read
from clearhead.serve.settings import Settings
from clearhead.serve.work import Catalogue, Done, Reason, Refusal, Work

log = logging.getLogger(__name__)

_TICK = 0.5  # seconds between two reports of a worker
_SILENT = 300.0  # seconds without a report after which a worker counts as lost; loading a large model is silent, too
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


# ---- the worker's side --------------------------------------------------------------------------------------------


def main() -> None:
    """Be a worker: read what is asked from stdin, write what came of it to stdout, until the parent has gone."""
    heard, said = pipes()
    start = read(heard, _to_worker)
    if not isinstance(start, Start):
        return
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    _Worker(start.settings, said).serve(heard)
    os._exit(0)  # what is still being computed is of no use to anybody


class _Worker:
    def __init__(self, settings: Settings, said: BinaryIO) -> None:
        self._settings = settings
        self._said = said
        self._saying = threading.Lock()
        self._batches: list[tuple[int, float]] = []
        self._tickets: dict[int, Any] = {}

    def say(self, message: Heard) -> None:
        with self._saying, suppress(BrokenPipeError):  # the parent has gone, and so will this process
            self._said.write(frame(message))
            self._said.flush()

    def serve(self, heard: BinaryIO) -> None:
        from clearhead.errors import ClearheadError
        from clearhead.serve.engine import Engine
        from clearhead.serve.registry import Registry

        try:
            registry = Registry(self._settings)
            registry.check()
            # before anything is computed, since this thread would have helpers of its own then
            engine = Engine(self._settings, registry, on_batch=lambda *batch: self._batches.append(batch))
            if self._settings.preload:
                registry.preload()
        except (ClearheadError, OSError) as error:
            self.say(Failed(str(error)))
            return
        threading.Thread(target=self._report, args=(engine,), daemon=True).start()
        while (message := read(heard, _to_worker)) is not None:
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


class WorkerProcess(ChildProcess[Heard]):
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
        super().__init__(__name__, Start(settings), _from_worker, silent=_SILENT)
        self._on_report = on_report
        self._on_loss = on_loss
        self._waiting: dict[int, asyncio.Queue[Answer | Refused | Piece]] = {}
        self._number = 0
        self.catalogue: Catalogue | None = None

    async def stop(self) -> None:
        """End the worker at once; who still waits is refused."""
        await super().stop()
        self._refuse("the service is ending; ask again")

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
        try:
            self.say(message)
        except Lost:
            raise Refusal("unavailable", _LOST, retry_after=1.0) from None
        except OverflowError:  # JSON has whole numbers of any size, MessagePack has not
            raise Refusal("invalid", "a number has more than 64 bits; give a smaller one") from None

    def hear(self, message: Heard) -> bool:
        """Hand a message on to who waits for it; one that reports can be asked."""
        if isinstance(message, Report):
            self.catalogue = message.catalogue or self.catalogue
            self._on_report(message)
        elif isinstance(message, Failed):
            self.failed = message.message
        elif (waiting := self._waiting.get(message.id)) is not None:
            waiting.put_nowait(message)
        return isinstance(message, Report)

    def lose(self) -> None:
        """Refuse all that is waited for."""
        self._refuse(_LOST)
        if self.failed is None:
            log.warning("the worker was lost and is started again")
            self._on_loss()

    def _refuse(self, why: str) -> None:
        for number, waiting in list(self._waiting.items()):
            waiting.put_nowait(Refused(number, "unavailable", why, retry_after=1.0))
