"""A registry in this process in the place of a worker, so that tests may change what it finds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from clearhead.studio import app
from clearhead.studio.registry import Registry
from clearhead.studio.worker import Wanted, compute


class InProcess:
    """What `create_app` takes as its backend."""

    def __init__(self, models: Sequence[str], runs: Sequence[Path]) -> None:
        self._registry = Registry(models, runs)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def ask(self, wanted: Wanted, path: str, given: Mapping[str, object]) -> bytes:
        return await run_in_threadpool(compute, self._registry, wanted, path, given)


def create_app(models: Sequence[str] = (), runs: Sequence[Path] = ()) -> app.Studio:
    """The application, which computes in this process; it needs no start."""
    return app.create_app(models, runs, backend=InProcess(models, runs))
