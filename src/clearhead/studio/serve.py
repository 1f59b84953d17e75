"""Run the studio on this machine, for this machine."""

import socket
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from clearhead.errors import BadInput
from clearhead.studio.app import create_app

HOST, PORT = "127.0.0.1", 8642


def serve(
    models: Sequence[str], runs: Sequence[Path], *, port: int | None, browser: bool, tell: Callable[[str], None]
) -> None:
    """Serve until it is interrupted; `tell` gets the address, and the browser opens it if wanted."""
    listener = _listen(port)
    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    config = uvicorn.Config(create_app(models, runs), log_level="warning", access_log=False, server_header=False)
    tell(address)
    if browser:
        webbrowser.open(address)  # it waits at the port until the server answers
    uvicorn.Server(config).run(sockets=[listener])


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
