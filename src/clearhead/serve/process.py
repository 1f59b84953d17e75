"""A process that computes for this one, as its parent has it: it can be lost or killed, and is then started anew.

Both speak through pipes, in frames of a length and a message in MessagePack. A child whose parent has gone ends.
"""

import asyncio
import logging
import os
import signal
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from time import monotonic
from typing import BinaryIO, Generic, Self, TypeVar

import msgspec

log = logging.getLogger(__name__)

_LENGTH = 4  # bytes that say how long a frame is
_TICK = 0.5  # seconds between two looks at a child that says nothing
_LONGEST_PAUSE = 10.0  # seconds before another child is started

Heard = TypeVar("Heard")


def frame(message: msgspec.Struct) -> bytes:
    """A message as it goes through a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(_LENGTH, "little") + body


# ---- the child's side ---------------------------------------------------------------------------------------------


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """What the parent says, and where it is answered. What anything prints does not get between the frames."""
    heard, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal it goes to the parent too, which decides
    return heard, said


def read(stream: BinaryIO, decoder: "msgspec.msgpack.Decoder[Heard]") -> Heard | None:
    """The next message; None if the parent has gone."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "little")
    body = stream.read(size)
    return decoder.decode(body) if len(body) == size else None


# ---- the parent's side --------------------------------------------------------------------------------------------


class Lost(Exception):
    """There is no child that could be told something."""


class ChildProcess(ABC, Generic[Heard]):
    """A child that runs `module`'s `main`, told `first` when it starts; one that is lost is replaced.

    A child that says nothing for `silent` seconds is lost, too. Who inherits this says what is done with its messages:
    `hear` returns whether the child can be asked from now on, and sets `failed` where it never will be.
    """

    name = "the worker"

    def __init__(
        self, module: str, first: msgspec.Struct, decoder: "msgspec.msgpack.Decoder[Heard]", *, silent: float
    ) -> None:
        self._module = module
        self._first = first
        self._decoder = decoder
        self._silent = silent
        self._process: asyncio.subprocess.Process | None = None
        self._spare: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._ready = asyncio.Event()
        self._heard = 0.0
        self._dismissed = False  # it was ended on purpose
        self._keeping: asyncio.Task[None] | None = None
        self.failed: str | None = None  # why it cannot start

    @abstractmethod
    def hear(self, message: Heard) -> bool:
        """Do what a message of the child asks for."""

    @abstractmethod
    def lose(self) -> None:
        """Do what the loss of the child asks for."""

    @property
    def ready(self) -> bool:
        """Whether it would answer now."""
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the child, and keep it going."""
        self._keeping = asyncio.create_task(self._keep())

    async def wait_until_ready(self) -> None:
        """Wait until it answers; `failed` says why it never will."""
        while not self.ready and self.failed is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), 0.05)

    async def stop(self) -> None:
        """End the child at once."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
        self._end()
        if self._process is not None:
            await self._process.wait()
        if self._spare is not None:
            with suppress(OSError):
                spare = await self._spare
                with suppress(ProcessLookupError):
                    spare.kill()
                await spare.wait()

    def prepare(self) -> None:
        """Start another child that takes over at once when this one is lost, if there is none yet."""
        if self._spare is None:
            self._spare = asyncio.create_task(self._started())

    def take_spare(self, other: Self) -> None:
        """Start with the child that stands by for another, which runs the same."""
        self._spare, other._spare = other._spare, None

    def replace(self) -> None:
        """End this child whatever it does; another is started in its place."""
        self._dismissed = True
        self._end()

    def _end(self) -> None:
        self._ready.clear()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def say(self, message: msgspec.Struct) -> None:
        """Tell the child something. Raises `Lost`, or OverflowError for a number that MessagePack has not."""
        self._tell(self._process, message)

    @staticmethod
    def _tell(process: asyncio.subprocess.Process | None, message: msgspec.Struct) -> None:
        if process is None or process.stdin is None or process.stdin.is_closing():
            raise Lost
        process.stdin.write(frame(message))

    async def _keep(self) -> None:
        """Start a child whenever there is none; one that cannot start at all is not tried again."""
        pause = 0.0
        while self.failed is None:
            await asyncio.sleep(pause)
            self._dismissed = False
            spare, self._spare = self._spare, None
            try:
                self._process = await (spare or self._started())
            except OSError as error:
                self.failed = f"{self.name} cannot be started: {error}"
                return
            watch = asyncio.create_task(self._watch())
            lived = False
            try:
                await self._listen(self._process)
                lived = self._dismissed or self.ready
            finally:
                watch.cancel()
                self._end()
            await self._process.wait()
            self.lose()
            # one that dies before it can be asked is given time
            pause = 0.0 if lived else min(max(2 * pause, 0.1), _LONGEST_PAUSE)

    async def _started(self) -> asyncio.subprocess.Process:
        command = [sys.executable, "-c", f"from {self._module} import main; main()"]
        pipe = asyncio.subprocess.PIPE
        # many threads that allocate make glibc keep an arena for each, and what is freed there stays
        environment = {"MALLOC_ARENA_MAX": "2", **os.environ}
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment)
        self._tell(process, self._first)
        return process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101
        self._heard = monotonic()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await process.stdout.readexactly(_LENGTH), "little")
                message = self._decoder.decode(await process.stdout.readexactly(size))
                self._heard = monotonic()
                if self.hear(message):
                    self._ready.set()

    async def _watch(self) -> None:
        """End a child that says nothing any more."""
        while True:
            await asyncio.sleep(_TICK)
            if monotonic() - self._heard > self._silent:
                log.error("%s has said nothing for %d s and is ended", self.name, self._silent)
                self._end()
