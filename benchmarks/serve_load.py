"""What the benchmarks of the service share: a server in a process of its own, a light HTTP client, percentiles, memory.

The machine that serves also asks, so the client must cost little: HTTP/1.1 by hand over asyncio's streams, one request
at a time on a connection that is kept. Nothing here imports torch; what needs it runs in a process that ends before
anything is measured.
"""

import asyncio
import contextlib
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

HOST = "127.0.0.1"
START = 300.0  # seconds until a server must be ready
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
Result = TypeVar("Result")


# a server


class Server:
    """A server as a subprocess on a free port; `with Server(command) as server:` waits until it is ready.

    `command` is its command line without the port, which goes where {port} stands. Its output is in `log`.
    """

    def __init__(
        self, command: Sequence[str], ready: str = "/ready", environment: dict[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self.command = [word.replace("{port}", str(self.port)) for word in command]
        self.ready = ready
        self.environment = {**os.environ, **(environment or {})}
        self.log = Path(tempfile.mkstemp(prefix="serve-", suffix=".log")[1])
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0  # seconds until it was ready

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def __enter__(self) -> "Server":
        began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        try:
            while not self._answers():
                if self.process.poll() is not None or time.monotonic() - began > START:
                    told = self.log.read_text(errors="replace")[-3000:]
                    raise SystemExit(f"{' '.join(self.command)} is not ready; it said:\n{told}")
                time.sleep(0.05)
        except BaseException:
            self.stop()
            raise
        self.started = time.monotonic() - began
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            return get(self.port, self.ready)[0] == 200
        except OSError:
            return False

    def stop(self) -> int:
        """Ask it to end, wait, and give its exit status; what does not end within a minute is killed."""
        if self.process is None:
            return 0
        if (ended := self.process.poll()) is not None:  # by itself, and its log says why
            sys.stderr.write(f"{' '.join(self.command)} ended with {ended}; it said, in {self.log}:\n")
            sys.stderr.write(self.log.read_text(errors="replace")[-3000:] + "\n")
            self.process = None
            return ended
        left = descendants(self.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        for pid in left:  # its own children, if it could not end them itself
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process = None
        self.log.unlink(missing_ok=True)
        return status

    def worker(self) -> int | None:
        """The process that computes: of all that the server started, the one that holds most memory."""
        found = [pid for pid in descendants(self.pid) if resident(pid) > 0]
        return max(found, key=resident, default=None)

    def memory(self) -> dict[str, int]:
        """Bytes in memory of the process that speaks HTTP and of the one that computes."""
        worker = self.worker()
        return {"front": resident(self.pid), "worker": resident(worker) if worker else 0}

    def cpu_seconds(self) -> float:
        """Seconds of processor that the server and what it started have used."""
        return sum(cpu_seconds(pid) for pid in [self.pid, *descendants(self.pid)])


def clearhead_server(*options: str, threads: int | None = None) -> Server:
    """`clearhead serve` with the options given, as this Python has it."""
    environment = {"CLEARHEAD_QUIET": "1", **({"OMP_NUM_THREADS": str(threads)} if threads else {})}
    command = [sys.executable, "-m", "clearhead", "serve", "--host", HOST, "--port", "{port}", *options]
    return Server(command, environment=environment)


def free_port() -> int:
    """A port that nothing listens at just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str, timeout: float = 10.0) -> tuple[int, bytes]:
    """One GET, with nothing running beside it."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()


# what the kernel says of a process


def resident(pid: int) -> int:
    """Bytes in memory; 0 of a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def cpu_seconds(pid: int) -> float:
    """Seconds of processor, user and system; 0 of a process that is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))) and fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state; the second is a name that may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


# the client


@dataclass(slots=True)
class Reply:
    """A status, the head in small letters, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """What the body says."""
        return json.loads(self.body)


class Lost(Exception):
    """The connection ended, or brought what is no HTTP, before the answer was there."""


class Connection:
    """One connection that is kept; a request is sent when the answer to the one before is there.

    Bytes that come while nothing was asked are an answer given twice, and counted in `stray`.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.stray = 0

    async def post(self, path: str, body: bytes, headers: str = "") -> Reply:
        """Send a JSON body and read the answer; opens the connection where there is none."""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {HOST}:{self.port}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n{headers}\r\n"
        )
        return await self.send(head.encode() + body)

    async def send(self, request: bytes) -> Reply:
        """Send the bytes of a request as they are, and read the answer."""
        # a connection that was kept may have been closed meanwhile, which is no loss: nothing was asked
        if self.reader is not None and self.reader.at_eof():
            self.close()
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(HOST, self.port, limit=1 << 22)
        self.stray += len(getattr(self.reader, "_buffer", b""))
        try:
            self.writer.write(request)
            await self.writer.drain()
            reply = await read_reply(self.reader)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self.close()
            raise Lost(f"{type(error).__name__}: {error}") from None
        except BaseException:
            self.close()
            raise
        if reply.headers.get("connection", "").lower() == "close":
            self.close()
        return reply

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one answer: by its length, in chunks, or until the end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    version, status, *_ = head[0].split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError(f"no answer of HTTP begins with {head[0][:50]!r}")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    if int(status) < 200:  # continue
        return await read_reply(reader)
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        chunks = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            chunks.append((await reader.readexactly(size + 2))[:-2])
        await reader.readuntil(b"\r\n")
        body = b"".join(chunks)
    else:
        body = b"" if int(status) in (204, 304) else await reader.read()
    return Reply(int(status), headers, body)


class Pool:
    """Connections for an open loop: an idle one if there is one, else a new one, at most `most`."""

    def __init__(self, port: int, most: int = 2000) -> None:
        self.port = port
        self.idle: list[Connection] = []
        self.all: list[Connection] = []
        self.room = asyncio.Semaphore(most)

    async def post(self, path: str, body: bytes, headers: str = "") -> Reply:
        async with self.room:
            if not self.idle:
                self.idle.append(Connection(self.port))
                self.all.append(self.idle[-1])
            connection = self.idle.pop()
            try:
                return await connection.post(path, body, headers)
            finally:
                self.idle.append(connection)

    @property
    def stray(self) -> int:
        return sum(connection.stray for connection in self.all)

    def close(self) -> None:
        for connection in self.all:
            connection.close()


# measuring


@dataclass
class Seen:
    """What came back: latencies in seconds of what was answered with 200, statuses, and what was lost."""

    latencies: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    done: int = 0  # texts, or requests, that were answered
    seconds: float = 0.0
    client_cpu: float = 0.0  # of one core, this process

    def count(self, status: int | str) -> None:
        self.statuses[str(status)] = self.statuses.get(str(status), 0) + 1

    @property
    def rate(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    def row(self) -> dict[str, Any]:
        """What is printed: times in milliseconds."""
        return {
            "per_s": round(self.rate, 1),
            "p50_ms": milliseconds(percentile(self.latencies, 50)),
            "p99_ms": milliseconds(percentile(self.latencies, 99)),
            "answered": len(self.latencies),
            "statuses": dict(sorted(self.statuses.items())),
            "client_cpu": round(self.client_cpu, 3),
        }


def percentile(numbers: Sequence[float], percent: float) -> float:
    """The smallest number that so many percent are not above; nan of none."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else math.nan


def milliseconds(seconds: float) -> float | None:
    return None if math.isnan(seconds) else round(seconds * 1000, 1)


@contextlib.contextmanager
def measured(seen: Seen) -> Any:
    """Take the time of a block, and the share of a core that this process itself used."""
    began, spent = time.perf_counter(), time.process_time()
    try:
        yield seen
    finally:
        seen.seconds = time.perf_counter() - began
        seen.client_cpu = (time.process_time() - spent) / seen.seconds


async def closed_loop(
    port: int,
    clients: int,
    seconds: float,
    ask: Callable[[Connection, int, int], Awaitable[tuple[int, int]]],
    timeout: float = 120.0,
) -> Seen:
    """So many clients, each of which asks again as soon as it has its answer, for some seconds.

    `ask(connection, client, turn)` gives the status and how many texts were answered. What was begun is waited for, and
    counts with the time that it took.
    """
    seen = Seen()

    async def client(number: int) -> None:
        connection, turn = Connection(port), 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            try:
                status, texts = await asyncio.wait_for(ask(connection, number, turn), timeout)
            except Lost:
                seen.count("lost")
                continue
            except TimeoutError:
                seen.count("hung")
                continue
            turn += 1
            seen.count(status)
            if status == 200:
                seen.latencies.append(time.perf_counter() - began)
                seen.done += texts
            else:
                await asyncio.sleep(0.01)  # what is refused must not become a loop that takes the processor
        connection.close()

    with measured(seen):
        until = time.perf_counter() + seconds
        await asyncio.gather(*(client(number) for number in range(clients)))
    return seen


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine, with uvloop where it is installed: it costs the client less."""
    try:
        from uvloop import run as uvloop_run
    except ImportError:
        return asyncio.run(main)
    return uvloop_run(main)


def elsewhere(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a fresh process, which ends with it, so that this one stays small."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def report(rows: Any, path: Path | None) -> None:
    """Write what was measured as JSON, if a file is named."""
    if path is not None:
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
