"""An engine in this process in the place of a worker, so that tests may look at both sides."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from clearhead.serve.engine import Engine
from clearhead.serve.registry import Registry
from clearhead.serve.settings import Settings
from clearhead.serve.work import Catalogue, Done, Refusal, Work


class InProcess:
    """What `create_app` takes as its backend."""

    def __init__(self, settings: Settings) -> None:
        self.engine = Engine(settings, Registry(settings))
        self.ready = True

    @property
    def catalogue(self) -> Catalogue:
        return self.engine.catalogue()

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.engine.close()

    async def perform(self, work: Work, *, client: str, timeout: float) -> Done:
        async for one in self._asked(work, client, timeout, stream=False):
            if isinstance(one, Done):
                return one
        raise AssertionError("there was no outcome")

    async def stream(self, work: Work, *, client: str, timeout: float) -> AsyncIterator[str | Done]:
        async for one in self._asked(work, client, timeout, stream=True):
            yield one

    async def _asked(self, work: Work, client: str, timeout: float, *, stream: bool) -> AsyncIterator[str | Done]:
        loop, told = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def tell(one: object) -> None:
            loop.call_soon_threadsafe(told.put_nowait, one)

        ticket = self.engine.submit(work, tell, client=client, timeout=timeout, piece=tell if stream else None)
        over = False
        try:
            while not over:
                one = await told.get()
                over = not isinstance(one, str)
                if isinstance(one, Refusal):
                    raise one
                yield one
        finally:
            if not over:
                ticket.cancel()
