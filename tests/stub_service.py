"""A service in a thread, for tests of clients: real HTTP and the native dialect, answered by models of this process.

It has no queue; `trouble` holds answers that are given before the real ones, such as (429, {"retry-after": "1"}).
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import clearhead as ch
from clearhead.errors import ClearheadError, NotFound, WrongTask
from clearhead.pipelines.search.index import Index
from clearhead.serve.dialects.native import NATIVE
from clearhead.serve.work import Done, Refusal, Work


class Service:
    """Models by their ids; skills are theirs. What was asked is kept in `asked`: route, headers, body."""

    def __init__(self, models: dict[str, ch.Model], indexes: dict[str, Index] | None = None) -> None:
        self.models = models
        self.indexes = indexes or {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.trouble: list[tuple[int, dict[str, str]]] = []
        self.url = ""

    def app(self) -> Starlette:
        routes = [Route(post.path, self._answered(post), methods=["POST"]) for post in NATIVE.posts]
        return Starlette(routes=[*routes, Route("/v1/models", self._listed)])

    async def _listed(self, request: Request) -> Response:
        self.asked.append((request.url.path, dict(request.headers), None))
        found = [{"id": name, "uses": ["translate"] if "trans" in name else [], "loaded": True} for name in self.models]
        return JSONResponse({"object": "list", "data": found})

    def _answered(self, post: Any) -> Callable[[Request], Any]:
        async def answered(request: Request) -> Response:
            content = json.loads(await request.body())
            self.asked.append((request.url.path, dict(request.headers), content))
            if self.trouble:
                status, headers = self.trouble.pop(0)
                body = {"error": {"message": f"trouble {status}", "code": headers.pop("code", None)}}
                return JSONResponse(body, status, headers)
            try:
                call = post.read(content, {})
                if call.stream is not None:
                    return StreamingResponse(self._events(call), media_type="text/event-stream")
                done = Done(results=self.results(call.work), model=call.work.model or "built-in")
            except Refusal as wrong:
                status, body = NATIVE.error(wrong)
                return JSONResponse(body, status)
            return Response(msgspec.json.encode(call.answer(done)), media_type="application/json")

        return answered

    def _events(self, call: Any) -> Iterator[str]:
        model, options = self._model(call.work.model, "generate"), call.work.options
        for number, text in enumerate(model.stream(call.work.items[0], **options)):
            yield f"data: {json.dumps(call.stream.piece(number, text))}\n\n"
        done = Done(results=[{"generated": "", "score": 0.0, "ended": True}], model="built-in")
        for event in call.stream.end(done):
            yield f"data: {json.dumps(event)}\n\n"

    def _model(self, named: str | None, use: str) -> ch.Model:
        name, _, skill = (named or {"generate": "gpt", "translate": "translator"}.get(use, "built-in")).partition(":")
        if name not in self.models:
            raise Refusal("unknown_model", f"there is no model {name!r}; there are {', '.join(self.models)}")
        try:
            return self.models[name].skill(skill) if skill else self.models[name]
        except NotFound as wrong:
            raise Refusal("unknown_model", str(wrong)) from None

    def results(self, work: Work) -> list[Any]:
        try:
            return self._computed(work)
        except WrongTask as wrong:
            raise Refusal("wrong_task", str(wrong)) from None
        except ClearheadError as wrong:
            raise Refusal("invalid", str(wrong)) from None

    def _computed(self, work: Work) -> list[Any]:
        options, items = dict(work.options), work.items
        model = self._model(work.model, "generate" if options.get("abstractive") else work.use)
        match work.use:
            case "compare" | "follows":
                found = getattr(model, work.use)(*map(list, zip(*items, strict=True)), **options)
            case "answer" if "index" in options:
                found = model.answer(items, self.indexes[options.pop("index")], **options)
            case "answer":
                found = model.answer(*map(list, zip(*items, strict=True)), **options)
            case "search" if "index" in options:
                found = self.indexes[options.pop("index")].search(items, **options)
            case "search":
                found = model.index(options.pop("documents")).search(items, **options)
            case "embed":
                return [np.ascontiguousarray(one).tobytes() for one in model.embed(items, **options)]
            case _:
                given = [tuple(one) if work.use == "classify" and not isinstance(one, str) else one for one in items]
                found = getattr(model, work.use.replace("-", "_"))(given, **options)
        return [[one.to_dict() for one in each] if isinstance(each, list) else each.to_dict() for each in found]


@contextmanager
def running(service: Service) -> Iterator[Service]:
    """The service at its url, until the end."""
    server = uvicorn.Server(uvicorn.Config(service.app(), port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive(), "the service did not start"
    (socket,) = server.servers[0].sockets
    service.url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    try:
        yield service
    finally:
        server.should_exit = True
        thread.join()
