"""The web application: a handler parses the request, asks the registry in a thread, and renders what comes back."""

import contextlib
import json
import threading
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from clearhead.errors import BadCheckpoint, ClearheadError, NotFound
from clearhead.inside.page import View, message_page
from clearhead.studio.entry import Answer
from clearhead.studio.pages import ENTRIES
from clearhead.studio.registry import Registry
from clearhead.studio.security import BodyTooLarge, SecurityMiddleware, read_object

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def create_app(models: Sequence[str] = (), runs: Sequence[Path] = ()) -> ASGIApp:
    """Make the application; it opens these models (folders or hub names), the built-in ones, these runs, no others."""
    registry = Registry(models, runs)
    static = _static_files()

    async def shell(request: Request) -> Response:
        known = request.url.path == "/" or request.url.path in ENTRIES
        return Response(static["index.html"], 200 if known else 404, media_type="text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404, f"there is no file {name[:80]!r} here")
        return Response(static[name], media_type=MEDIA_TYPES[Path(name).suffix])

    async def studio(request: Request) -> Response:
        entries = [entry.to_dict() for entry in ENTRIES.values()]
        return Answered({"models": registry.models, "runs": len(registry.runs), "entries": entries})

    async def model(request: Request) -> Response:
        asked = request.query_params
        page = ENTRIES.get(asked.get("page", ""))
        return Answered(await run_in_threadpool(registry.about, asked.get("model"), asked.get("skill"), page))

    async def answer(request: Request) -> Response:
        found = await answered(request)
        return Answered(found.data if isinstance(found, View) else found)

    async def picture(request: Request) -> Response:
        status = 200
        try:
            found = await answered(request)
            page = found.html if isinstance(found, View) else message_page("this page has no picture")
        except ClearheadError as error:
            page, status = message_page(str(error)), _status(error)
        # what may run in it, the page says itself
        return HTMLResponse(page, status, {"content-security-policy": "frame-ancestors 'self'"})

    async def answered(request: Request) -> Answer:
        path = f"/{request.path_params.get('kind', 'look')}/{request.path_params['name']}"
        if path not in ENTRIES:
            raise NotFound(f"there is no page {path[:80]!r}; there are {', '.join(ENTRIES)}")
        given = await read_object(request) if request.method == "POST" else dict(request.query_params)
        return await run_in_threadpool(registry.answer, ENTRIES[path], given)

    def warm_up() -> None:
        with contextlib.suppress(ClearheadError):  # what is wrong with the default model, its first page says
            registry.about()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # the default model loads while the first page opens
        threading.Thread(target=warm_up, daemon=True).start()
        yield

    app = Starlette(
        routes=[
            Route("/static/{name}", asset),
            Route("/api/studio", studio),
            Route("/api/model", model),
            Route("/api/{kind:str}/{name:str}", answer, methods=["GET", "POST"]),
            Route("/picture/{name:str}", picture),
            Route("/{path:path}", shell),
        ],
        exception_handlers=dict.fromkeys((ClearheadError, HTTPException, ClientDisconnect, Exception), _refused),
        lifespan=lifespan,
    )
    return SecurityMiddleware(app)  # round everything, so that a failure has its headers too


class Answered(JSONResponse):
    """An answer in plain ASCII, so that half a surrogate pair in a model's files is no failure; NaN is refused."""

    def render(self, content: Any) -> bytes:
        """The bytes of the answer."""
        try:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
        except ValueError:
            raise BadCheckpoint("the model computes numbers that are not finite; its weights are damaged") from None


def _static_files() -> dict[str, bytes]:
    """Every file that is served, by its name: what is not here cannot be asked for."""
    own = files("clearhead.studio") / "static"
    shared = files("clearhead.inside") / "pages" / "shared" / "base.css"
    return {one.name: one.read_bytes() for one in (*own.iterdir(), shared) if Path(one.name).suffix in MEDIA_TYPES}


def _status(error: ClearheadError) -> int:
    return 404 if isinstance(error, NotFound) else 413 if isinstance(error, BodyTooLarge) else 400


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, ClearheadError):
        return Answered({"error": str(error)}, _status(error))
    if isinstance(error, HTTPException):
        return Answered({"error": error.detail}, error.status_code)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # nobody is there to read it
    return Answered({"error": "the studio failed at this; its terminal says why"}, 500)
