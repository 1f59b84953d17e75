"""The application: a handler reads the request by its dialect, has the work done, and says the answer."""

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.metadata import version
from time import monotonic
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from clearhead.serve.dialects.cohere import COHERE
from clearhead.serve.dialects.dialect import Call, Dialect, Post, Stream
from clearhead.serve.dialects.huggingface import HUGGINGFACE
from clearhead.serve.dialects.jina import JINA
from clearhead.serve.dialects.native import NATIVE
from clearhead.serve.dialects.openai import OPENAI
from clearhead.serve.dialects.tei import TEI
from clearhead.serve.docs_page import docs_page, docs_policy
from clearhead.serve.metrics import CONTENT_TYPE, Metrics, span, timing_headers
from clearhead.serve.openapi import document
from clearhead.serve.security import Gate, Keys, read_json
from clearhead.serve.settings import Settings
from clearhead.serve.waiting import for_client
from clearhead.serve.work import STATUS, Catalogue, Done, Refusal, Work
from clearhead.serve.worker import Report, WorkerProcess

log = logging.getLogger(__name__)

DIALECTS: Sequence[Dialect] = (NATIVE, OPENAI, COHERE, JINA, TEI, HUGGINGFACE)
_BODIES = 256_000_000  # bytes of all bodies that are being read or answered
_READY_SECONDS = 5.0
_LEAST_TIMEOUT, _MOST_TIMEOUT = 0.001, 3600.0


class Backend(Protocol):
    """What does the work: `worker.WorkerProcess`, or an engine in this process."""

    @property
    def ready(self) -> bool:
        """Whether it would answer now."""
        ...

    @property
    def catalogue(self) -> Catalogue | None:
        """What can be asked; None before that is known."""
        ...

    async def start(self) -> None:
        """Begin."""
        ...

    async def stop(self) -> None:
        """End at once."""
        ...

    async def perform(self, work: Work, *, client: str, timeout: float) -> Done:
        """Have work done; cancelled, it is dropped."""
        ...

    def stream(self, work: Work, *, client: str, timeout: float) -> AsyncIterator[str | Done]:
        """Have text written."""
        ...


class Room(Protocol):
    """Another application that is served beside, such as the studio: all of these paths are its own.

    Where it has "/", a browser gets that from it, and a program the service's health.
    """

    @property
    def paths(self) -> Sequence[str]:
        """Its paths, as routes have them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        ...

    async def start(self) -> None:
        """Begin."""
        ...

    async def stop(self) -> None:
        """End at once; ended already, do nothing."""
        ...


def create_app(settings: Settings, backend: Backend | None = None, also: Sequence[Room] = ()) -> "Service":
    """Make the application; its lifespan starts a worker process, unless it is given what does the work."""
    return Service(settings, backend, also)


class Service:
    """The service as an ASGI application. `drain` lets it take no more work, and waits for what is being done."""

    def __init__(self, settings: Settings, backend: Backend | None = None, also: Sequence[Room] = ()) -> None:
        self.settings = settings
        self._also = also
        self.metrics = Metrics()
        self.draining = False
        self.active = 0  # requests that are being answered
        self._bodies = 0  # bytes
        self._backend = backend or WorkerProcess(settings, on_report=self._report, on_loss=self._lost)
        keys = Keys(settings.api_keys)
        rooms = [(_Page if path == "/" else Route)(path, room) for room in also for path in room.paths]
        routes = [*rooms, *self._own_routes(secured=bool(keys)), *self._dialect_routes()]
        handlers = dict.fromkeys((Refusal, HTTPException, ClientDisconnect, Exception), self._failed)
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        self._app: ASGIApp = Gate(
            app, keys=keys, hosts=settings.allowed_hosts, origins=settings.cors_origins, refuse=self._refused
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the application's life."""
        await self._app(scope, receive, send)

    async def drain(self) -> None:
        """Take no more work, and wait until what is being done is answered, for as long as the grace time."""
        self.draining = True
        self.metrics.ready(False)
        until = monotonic() + self.settings.grace
        while self.active and monotonic() < until:
            await asyncio.sleep(0.02)
        for room in self._also:
            await room.stop()

    @property
    def backend(self) -> Backend:
        """What does the work."""
        return self._backend

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        every: list[Backend | Room] = [self._backend, *self._also]
        for one in every:
            await one.start()
        try:
            yield
        finally:
            for one in every:
                await one.stop()

    def _report(self, report: Report) -> None:
        catalogue = report.catalogue
        loaded = None if catalogue is None else sum(one.loaded and one.parent is None for one in catalogue.models)
        self.metrics.report(report.queue_tokens, report.memory, report.batches, loaded)
        self.metrics.ready(not self.draining)

    def _lost(self) -> None:
        self.metrics.lost()
        self.metrics.ready(False)

    # ---- routes of the service itself ----

    def _own_routes(self, *, secured: bool) -> list[Route]:
        described = document(DIALECTS, title="clearhead", version=version("clearhead"), secured=secured)
        described_bytes = msgspec.json.encode(described)
        page, policy = docs_page(described), docs_policy()

        async def health(request: Request) -> Response:
            return _json({"status": "ok"})

        async def ready(request: Request) -> Response:
            return await self._ready()

        async def metrics(request: Request) -> Response:
            return Response(self.metrics.text(), media_type=CONTENT_TYPE)

        async def openapi(request: Request) -> Response:
            return Response(described_bytes, media_type="application/json")

        async def docs(request: Request) -> Response:
            return HTMLResponse(page, headers={"content-security-policy": policy})

        own = {"/health": health, "/ping": health, "/": health, "/ready": ready, "/metrics": metrics, "/docs": docs}
        own |= {"/openapi.json": openapi, "/api-doc/openapi.json": openapi}
        own |= {"/v1/health/live": health, "/v1/health/ready": ready}
        return [Route(path, handler, methods=["GET"]) for path, handler in own.items()]

    async def _ready(self) -> Response:
        """Whether work is taken, by having a little done; a full queue is a busy service, not a broken one."""
        try:
            if self.draining:
                raise Refusal("unavailable", "the service is draining")
            await self._backend.perform(Work(use="embed", items=["ready"]), client="ready", timeout=_READY_SECONDS)
        except Refusal as refused:
            if refused.reason != "overloaded":
                return _json({"status": "not ready", "reason": refused.message}, 503)
        return _json({"status": "ready"})

    # ---- routes of the dialects ----

    def _dialect_routes(self) -> list[Route]:
        shared: dict[str, list[tuple[Dialect, Post]]] = {}
        routes: list[Route] = []
        for dialect in DIALECTS:
            for post in dialect.posts:
                shared.setdefault(post.path, []).append((dialect, post))
            for get in dialect.gets:

                async def tell(request: Request, get: Any = get, dialect: Dialect = dialect) -> Response:
                    try:
                        if self._backend.catalogue is None:
                            raise Refusal("unavailable", "the models are being loaded; ask again", retry_after=1.0)
                        return _json(get.answer(self._backend.catalogue, request.path_params))
                    except Refusal as refused:
                        return self._said(dialect, refused, "models")

                routes.append(Route(get.path, tell, methods=["GET"]))
        # those with a parameter come last, since it could be anything
        for path in sorted(shared, key=lambda path: path.count("{")):

            async def take(request: Request, several: Any = shared[path]) -> Response:
                return await self._take(request, several)

            routes.append(Route(path, take, methods=["POST"]))
        return routes

    async def _take(self, request: Request, several: Sequence[tuple[Dialect, Post]]) -> Response:
        """Read a request, have its work done, and say the answer."""
        started = monotonic()
        dialect, use = several[0][0], "unknown"
        self.active += 1
        size = 0
        streaming = False
        try:
            if self.draining:
                raise Refusal("unavailable", "the service is ending; ask again", retry_after=1.0)
            size = _length(request, self.settings.max_body_bytes)
            if self._bodies + size > _BODIES:
                raise Refusal("overloaded", "too many bodies are being read; ask again in 1 s", retry_after=1.0)
            self._bodies += size
            content = await read_json(request, most=self.settings.max_body_bytes, seconds=self.settings.body_timeout)
            dialect, post = next((one for one in several if one[1].takes(content)), several[0])
            call = post.read(content, request.path_params)
            use = call.work.use
            timeout = _timeout(request, self.settings.timeout)
            with span(f"clearhead {use}", request.headers, use=use, items=len(call.work.items)):
                if call.stream is not None:
                    streaming = True
                    return await self._stream(request, dialect, call, call.stream, timeout, started)
                return await self._answer(request, call, timeout, started, size)
        except Refusal as refused:
            return self._said(dialect, refused, use, request, started)
        except ClientDisconnect:
            self._log(request, use, 499, started)
            return Response(status_code=400)  # nobody is there to read it
        except Exception as error:
            # answered here, since what starlette answers for us closes the connection without saying so
            return self._said(dialect, _internal(error), use, request, started)
        finally:
            self._bodies -= size
            self.active -= not streaming

    async def _answer(self, request: Request, call: Call, timeout: float, started: float, size: int) -> Response:
        work = call.work
        client = request.scope["client_name"]
        done = await for_client(request, self._backend.perform(work, client=client, timeout=timeout))
        body = msgspec.json.encode(call.answer(done))
        done = msgspec.structs.replace(done, total_seconds=monotonic() - started)
        self.metrics.done(work.use, done, items=len(work.items))
        self._log(request, work.use, 200, started, done, work)
        headers = {**call.headers, **timing_headers(done, size)}
        return Response(body, media_type="application/json", headers=headers)

    async def _stream(
        self, request: Request, dialect: Dialect, call: Call, said: Stream, timeout: float, started: float
    ) -> Response:
        """Answer with events; what is refused before the first of them is refused as ever."""
        pieces = self._backend.stream(call.work, client=request.scope["client_name"], timeout=timeout)
        try:
            first = await anext(pieces)
        except BaseException:
            self.active -= 1
            raise

        async def events() -> AsyncIterator[bytes]:
            number, piece = 0, first
            try:
                while isinstance(piece, str):
                    yield _event(said.piece(number, piece))
                    number += 1
                    piece = await anext(pieces)
                self.metrics.done(call.work.use, piece, items=1)
                self._log(request, call.work.use, 200, started, piece, call.work)
                for last in said.end(piece):
                    yield _event(last)
            except Refusal as refused:
                self.metrics.refused(call.work.use, refused, refused.status)
                yield _event(dialect.error(refused)[1])
            finally:
                self.active -= 1
                await pieces.aclose()  # type: ignore[attr-defined]

        return StreamingResponse(events(), media_type="text/event-stream", headers=dict(call.headers))

    # ---- what goes wrong ----

    def _said(
        self, dialect: Dialect, refused: Refusal, use: str, request: Request | None = None, started: float = 0.0
    ) -> Response:
        status, body = dialect.error(refused)
        self.metrics.refused(use, refused, status)
        if request is not None:
            self._log(request, use, status, started, reason=refused.reason)
        return _json(body, status, _headers(refused))

    def _refused(self, refused: Refusal, path: str) -> ASGIApp:
        dialect = _dialect_of(path)
        return self._said(dialect, refused, "unknown")

    async def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, ClientDisconnect):
            return Response(status_code=400)
        if isinstance(error, HTTPException):
            return self._said(_dialect_of(request.url.path), _of_http(error, request), "unknown", request, monotonic())
        if not isinstance(error, Refusal):
            error = _internal(error)
        return self._said(_dialect_of(request.url.path), error, "unknown", request, monotonic())

    def _log(
        self,
        request: Request,
        use: str,
        status: int,
        started: float,
        done: Done | None = None,
        work: Work | None = None,
        reason: str | None = None,
    ) -> None:
        """One line for each request, without its texts unless they were asked for."""
        facts: dict[str, Any] = {
            "path": request.url.path,
            "use": use,
            "status": status,
            "ms": round((monotonic() - started) * 1000, 1),
            "client": request.scope.get("client_name", ""),
        }
        if done is not None and work is not None:
            facts |= {"model": done.model, "items": len(work.items), "tokens": done.read}
            facts |= {"queue_ms": round(done.queue_seconds * 1000, 1)}
            if self.settings.log_texts:
                facts["texts"] = [str(one)[:200] for one in work.items[:10]]
        if reason is not None:
            facts["reason"] = reason
        if request.scope.get("request_id") is not None:
            facts["request_id"] = request.scope["request_id"]
        if self.settings.log_format == "json":
            log.info("%s", json.dumps(facts))
        else:
            log.info("%s", " ".join(f"{name}={value}" for name, value in facts.items()))


class _Page(Route):
    """A route for browsers, beside one for programs at the same path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a browser opens it."""
        match = super().matches(scope)
        opened = scope.get("method") == "GET" and "text/html" in Headers(scope=scope).get("accept", "")
        return match if opened else (Match.NONE, {})


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")


def _event(content: Any) -> bytes:
    body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
    return b"data: " + body + b"\n\n"


def _internal(error: Exception) -> Refusal:
    log.error("a request failed", exc_info=error)
    return Refusal("internal", f"the service failed at this ({type(error).__name__}); its log says why")


def _headers(refused: Refusal) -> dict[str, str]:
    headers = {}
    if refused.retry_after is not None:
        headers["retry-after"] = str(math.ceil(refused.retry_after))
        headers["retry-after-ms"] = str(math.ceil(refused.retry_after * 1000))
    if refused.reason == "unauthorised":
        headers["www-authenticate"] = "Bearer"
    if refused.reason in ("slow_body", "too_large"):
        headers["connection"] = "close"  # the rest of the body is not read
    return headers


def _dialect_of(path: str) -> Dialect:
    """Whose error bodies a path has where no route was reached."""
    owners = [one for one in DIALECTS if any(post.path == path for post in one.posts)]
    if path.startswith(("/models/", "/pipeline/")):
        return HUGGINGFACE
    return owners[0] if owners else NATIVE


def _of_http(error: HTTPException, request: Request) -> Refusal:
    if error.status_code == STATUS["method"]:
        return Refusal("method", f"{request.method} is not for {request.url.path[:80]}; see /docs")
    if error.status_code == STATUS["not_found"]:
        return Refusal("not_found", f"there is nothing at {request.url.path[:80]}; see /docs")
    return Refusal("invalid", str(error.detail))


def _length(request: Request, most: int) -> int:
    """How many bytes a body will have, as far as it says."""
    said = request.headers.get("content-length", "")
    return min(int(said[:12]), most) if said.isdecimal() else most


def _timeout(request: Request, usual: float) -> float:
    given = request.headers.get("x-timeout-ms")
    if given is None:
        return usual
    try:
        seconds = float(given) / 1000
    except ValueError:
        seconds = math.nan
    if not _LEAST_TIMEOUT <= seconds <= _MOST_TIMEOUT:
        told = f"x-timeout-ms: {given[:40]!r} is no number of milliseconds from 1 to {_MOST_TIMEOUT * 1000:.0f}"
        raise Refusal("invalid", f"{told}; give one, or leave it out", field="x-timeout-ms")
    return seconds
