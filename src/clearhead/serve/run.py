"""Run the service: take a port, answer until a signal comes, let what is being answered end, and go."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn

from clearhead.errors import BadInput, NotFound, require
from clearhead.serve.app import Room, Service, create_app
from clearhead.serve.settings import Settings

HOST, PORT = "127.0.0.1", 8643
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_KEEP_ALIVE = 75  # seconds: longer than load balancers keep theirs, so that they close first


def serve(
    settings: Settings,
    *,
    host: str = HOST,
    port: int = PORT,
    certificate: Path | None = None,
    key: Path | None = None,
    tell: Callable[[str], None],
    also: Sequence[Room] = (),
) -> None:
    """Serve until SIGTERM or SIGINT; `tell` gets the address once work is taken. Raises what keeps it from starting."""
    _log_to_stderr()
    service = create_app(settings, also=also)
    config = uvicorn.Config(
        service,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE,
        ssl_certfile=_existing(certificate, "--tls-cert"),
        ssl_keyfile=_existing(key, "--tls-key"),
    )
    listener = listen(host, port)
    scheme = "https" if certificate is not None else "http"
    shown = f"[{host}]" if ":" in host else host
    server = _Server(config, service, f"{scheme}://{shown}:{listener.getsockname()[1]}", tell)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    failed = getattr(service.backend, "failed", None)
    if failed is not None:
        raise BadInput(failed)


class _Server(uvicorn.Server):
    """uvicorn's server, which drains when it is told to end, and keeps answering 503 meanwhile."""

    def __init__(self, config: uvicorn.Config, service: Service, address: str, tell: Callable[[str], None]) -> None:
        super().__init__(config)
        self._service = service
        self._address = address
        self._tell = tell
        self._draining: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain at the first signal, end at the second; the process then ends with 0, as asked."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ask_to_end)
        if self._starting is None:
            self._starting = loop.create_task(self._tell_when_ready())
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _ask_to_end(self) -> None:
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        logging.getLogger(__name__).info("draining for at most %g s", self._service.settings.grace)
        await self._service.drain()
        self.should_exit = True

    async def _tell_when_ready(self) -> None:
        wait = getattr(self._service.backend, "wait_until_ready", None)
        while not self.started:
            await asyncio.sleep(0.01)
        if wait is not None:
            await wait()
        if getattr(self._service.backend, "failed", None) is None:
            self._tell(self._address)
        else:
            self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Take a port; 0 is any that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise BadInput(f"--host {host} is no address of this machine ({error}); choose another") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except (OSError, OverflowError) as error:
        listener.close()
        raise BadInput(f"port {port} of {host} cannot be used ({error}); choose another with --port") from None
    listener.listen(2048)
    return listener


def check_open(host: str, settings: Settings, *, insecure: bool) -> None:
    """Refuse to be reached by others without a key, unless that is meant."""
    open_to_others = host not in LOOPBACK
    told = f"--host {host} lets other machines in, and there is no API key"
    todo = "give --api-key-file or CLEARHEAD_API_KEY, or say --insecure"
    require(not open_to_others or bool(settings.api_keys) or insecure, f"{told}; {todo}", BadInput)


def read_keys(given: list[str], file: Path | None) -> tuple[str, ...]:
    """All keys: those given, each perhaps several with commas between, and those of a file, one a line."""
    keys = [part.strip() for one in given for part in one.split(",")]
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise NotFound(f"--api-key-file {file} cannot be read ({error}); give a text file, a key a line") from None
        keys += [line.strip() for line in lines if not line.startswith("#")]
        require(any(map(str.strip, lines)), f"--api-key-file {file} holds no key; write one a line", BadInput)
    return tuple(dict.fromkeys(key for key in keys if key))


def _existing(path: Path | None, option: str) -> str | None:
    require(path is None or path.is_file(), f"{option} {path} is not there; check the path", NotFound)
    return None if path is None else str(path)


def _log_to_stderr() -> None:
    root = logging.getLogger("clearhead")
    root.setLevel(logging.INFO)
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        root.addHandler(handler)
