"""A studio in a thread, for tests and for the pictures of the docs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from clearhead.studio.serve import _listen


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Serve a studio while it is looked at; gives its address."""
    door = _listen(0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{door.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
