"""Run the studio on this machine, for this machine."""

import socket
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from clearhead.errors import BadInput
from clearhead.studio.app import Studio, create_app
from clearhead.studio.worker import DEADLINE

HOST, PORT = "127.0.0.1", 8642
_GRACE = 1  # seconds for a body that is still on its way


def serve(
    models: Sequence[str],
    runs: Sequence[Path],
    *,
    port: int | None,
    browser: bool,
    tell: Callable[[str], None],
    deadline: float = DEADLINE,
) -> None:
    """Serve until it is interrupted; `tell` gets the address, and the browser opens it if wanted."""
    listener = _listen(port)
    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    app = create_app(models, runs, deadline=deadline)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=_GRACE
    )
    tell(address)
    if browser:
        webbrowser.open(address)  # it waits at the port until the server answers
    _Server(config, app).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server, which waits for nothing that is still being computed when it is told to end."""

    def __init__(self, config: uvicorn.Config, app: Studio) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the process that computes, so that every request is answered, and then the server."""
        await self._app.stop()
        await super().shutdown(sockets)


def _listen(port: int | None) -> socket.socket:
    """Take the port; the usual one, if it is taken and none was asked for, gives way to any that is free."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for wanted in [PORT, 0] if port is None else [port]:
        try:
            listener.bind((HOST, wanted))
        except (OSError, OverflowError) as error:
            problem = error
            continue
        listener.listen()
        return listener
    listener.close()
    raise BadInput(f"port {port} cannot be used ({problem}); choose another with --port") from None
