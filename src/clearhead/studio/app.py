"""The web application: a handler parses the request, has it computed in another process, and sends what comes back."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from clearhead.errors import ClearheadError, NotFound
from clearhead.inside.page import message_page, module
from clearhead.io import read_json
from clearhead.serve.waiting import for_client
from clearhead.studio.pages import ENTRIES
from clearhead.studio.registry import Registry
from clearhead.studio.security import HOSTS, BodyTooLarge, SecurityMiddleware, read_object
from clearhead.studio.worker import (
    DEADLINE,
    Backend,
    Failure,
    Late,
    StudioProcesses,
    TooLong,
    Unavailable,
    Wanted,
    as_json,
)

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATUS = {NotFound: 404, BodyTooLarge: 413, Failure: 500, Unavailable: 503, Late: 504}
HOMES = ("/", "/studio")  # where the service has the first for programs, the second is there
# the hour of a lecturer: each chapter names its views, of which the first that is there is taken, and what they show
CHAPTERS: list[dict[str, Any]] = read_json(Path(__file__).with_name("chapters.json"))
DOORS = ("/learn", "/compare", *(f"/learn/{chapter['name']}" for chapter in CHAPTERS))


def create_app(
    models: Sequence[str] | Mapping[str, str] = (),
    runs: Sequence[Path] = (),
    *,
    deadline: float = DEADLINE,
    hosts: Sequence[str] = HOSTS,
    backend: Backend | None = None,
) -> "Studio":
    """Make the application; it opens these models (folders or hub names), the built-in ones, these runs, no others.

    A mapping gives models names of their own. The lifespan starts the process that computes, each page in `deadline`
    seconds, unless there is a `backend` that does.
    """
    registry = Registry(models, runs)  # for its names: the models are loaded where they compute
    return Studio(registry, backend or StudioProcesses(models, runs, deadline=deadline), hosts, deadline)


class Studio:
    """The studio as an ASGI application, and as one that a service has beside its own (see `serve.app.Room`)."""

    paths = (
        *HOMES,
        "/static/{name}",
        "/module/{name}",
        "/api/studio",
        "/api/model",
        "/api/{kind}/{name}",
        "/picture/{name}",
        *ENTRIES,
    )

    def __init__(self, registry: Registry, backend: Backend, hosts: Sequence[str], deadline: float) -> None:
        self._registry = registry
        self._deadline = deadline
        self._backend = backend
        self._static = _static_files()
        app = Starlette(
            routes=[
                Route("/static/{name}", self._asset),
                Route("/module/{name}", self._module),
                Route("/api/studio", self._studio),
                Route("/api/model", self._model),
                Route("/api/{kind:str}/{name:str}", self._answer, methods=["GET", "POST"]),
                Route("/picture/{name:str}", self._picture),
                Route("/{path:path}", self._shell),
            ],
            exception_handlers=dict.fromkeys((ClearheadError, HTTPException, ClientDisconnect, Exception), _refused),
            lifespan=self._lifespan,
        )
        self._app = SecurityMiddleware(app, hosts=hosts)  # round everything, so that a failure has its headers too

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the application's life."""
        await self._app(scope, receive, send)

    async def start(self) -> None:
        """Start the process that computes."""
        await self._backend.start()

    async def stop(self) -> None:
        """End it at once; who still waits is refused."""
        await self._backend.stop()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def _shell(self, request: Request) -> Response:
        known = request.url.path in (*HOMES, *DOORS, *ENTRIES)
        return Response(self._static["index.html"], 200 if known else 404, media_type="text/html")

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404, f"there is no file {name[:80]!r} here")
        return Response(self._static[name], media_type=MEDIA_TYPES[Path(name).suffix])

    async def _module(self, request: Request) -> Response:
        scripts = request.query_params.get("files", "")
        code = module(request.path_params["name"], [one for one in scripts.split(",") if one])
        return Response(code, media_type=MEDIA_TYPES[".js"])

    async def _studio(self, request: Request) -> Response:
        entries = [entry.to_dict() for entry in ENTRIES.values()]
        facts = {"models": self._registry.models, "runs": len(self._registry.runs), "deadline": self._deadline}
        return Answered({**facts, "entries": entries, "chapters": CHAPTERS})

    async def _model(self, request: Request) -> Response:
        asked = dict(request.query_params)
        found = await for_client(request, self._backend.ask("about", asked.get("page", ""), asked))
        return Response(found, media_type="application/json")

    async def _answer(self, request: Request) -> Response:
        return Response(await self._answered(request, "data"), media_type="application/json")

    async def _picture(self, request: Request) -> Response:
        page: bytes | str
        status = 200
        try:
            page = await self._answered(request, "html")
        except ClearheadError as error:
            page, status = message_page(str(error), **_offer(error)), _status(error)
        # what may run in it, the page says itself
        return HTMLResponse(page, status, {"content-security-policy": "frame-ancestors 'self'"})

    async def _answered(self, request: Request, wanted: Wanted) -> bytes:
        path = f"/{request.path_params.get('kind', 'look')}/{request.path_params['name']}"
        if path not in ENTRIES:
            raise NotFound(f"there is no page {path[:80]!r}; there are {', '.join(ENTRIES)}")
        given = await read_object(request) if request.method == "POST" else dict(request.query_params)
        return await for_client(request, self._backend.ask(wanted, path, given))


class Answered(JSONResponse):
    """An answer in plain ASCII."""

    def render(self, content: Any) -> bytes:
        """The bytes of the answer."""
        return as_json(content)


def _static_files() -> dict[str, bytes]:
    """Every file that is served, by its name: what is not here cannot be asked for."""
    own = files("clearhead.studio") / "static"
    shared = files("clearhead.inside") / "pages" / "shared" / "base.css"
    return {one.name: one.read_bytes() for one in (*own.iterdir(), shared) if Path(one.name).suffix in MEDIA_TYPES}


def _status(error: ClearheadError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400)


def _offer(error: ClearheadError) -> dict[str, Any]:
    return {"shorter": error.shorter} if isinstance(error, TooLong) and error.shorter else {}


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, ClearheadError):
        return Answered({"error": str(error), **_offer(error)}, _status(error))
    if isinstance(error, HTTPException):
        return Answered({"error": error.detail}, error.status_code)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # nobody is there to read it
    return Answered({"error": "the studio failed at this; its terminal says why"}, 500)
