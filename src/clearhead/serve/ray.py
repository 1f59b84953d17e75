"""Replicas across machines with Ray Serve: `serve run clearhead.serve.ray:app`.

Every replica is a whole service, with a worker process of its own and the settings of CLEARHEAD_SERVE_… in its
environment. How many there are follows the requests under way; deploy/ray-serve.yaml shows how to say otherwise.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from ray import serve
from starlette.types import ASGIApp

from clearhead.serve.app import Service, create_app
from clearhead.serve.settings import Settings

# Less than a core, so that as many replicas as cores leave something for what Ray itself has to place. Ray gives the
# worker one thread then; with num_cpus of two or more, as many.
_CPUS = 0.9
# A replica has a queue of its own, which knows what waits in tokens and refuses what is too much with an honest
# retry-after: so Ray should hand over nearly everything, and add replicas long before.
_MAX_ONGOING = 512
_TARGET_ONGOING = 16
_POLL_SECONDS = 0.2


def _build() -> Service:
    """Make the application, in the process of the replica."""
    return create_app(Settings.from_environment())


class Replica:
    """One service: Ray runs the application's lifespan, so its worker starts and ends with it."""

    app: Service  # put there by `serve.ingress`

    def __init__(self) -> None:
        named = [host for host in Settings.from_environment().allowed_hosts if host != "*"]
        self._host = named[0] if named else "127.0.0.1"  # a name under which the application lets itself be asked
        self._was_ready = False

    async def check_health(self) -> None:
        """Be healthy when the worker answers; a new replica waits for its models, a lost one is replaced by Ray."""
        ready = await _is_ready(self.app, self._host)
        while not ready and not self._was_ready:
            failed = getattr(self.app.backend, "failed", None)
            if failed is not None:  # such as a folder that is not there: Ray gives up after a few tries, and shows it
                raise RuntimeError(failed)
            await asyncio.sleep(_POLL_SECONDS)
            ready = await _is_ready(self.app, self._host)
        if not ready:
            raise RuntimeError("the worker of this replica does not answer; look at the log for why it ended")
        self._was_ready = True


async def _is_ready(application: ASGIApp, host: str) -> bool:
    """Ask /ready, without a way over the network."""
    statuses: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/ready",
        "raw_path": b"/ready",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "client": None,
        "server": None,
    }
    await application(scope, receive, send)
    return statuses == [200]


# Ray leaves its decorators without types
deployment: Any = serve.deployment(
    name="clearhead",
    ray_actor_options={"num_cpus": _CPUS},
    max_ongoing_requests=_MAX_ONGOING,
    autoscaling_config={"min_replicas": 1, "max_replicas": 8, "target_ongoing_requests": _TARGET_ONGOING},
    health_check_period_s=10,
    health_check_timeout_s=30,
    graceful_shutdown_wait_loop_s=1,
    graceful_shutdown_timeout_s=45,  # longer than the time that requests under way are given
)(serve.ingress(_build)(Replica))
app: Any = deployment.bind()
