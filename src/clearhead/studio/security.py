"""Security of the studio: only this machine asks, only its own pages run, no body is endless."""

import json
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.errors import BadInput, valid_text
from clearhead.serve.security import served_host

HOSTS = ("127.0.0.1", "localhost")
MAX_BODY = 1_000_000  # bytes of a request's body

# the pages of the studio; a picture is stricter still and brings its own policy
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class BodyTooLarge(BadInput):
    """A body that is longer than anybody types."""


class SecurityMiddleware:
    """Refuses requests that another site sends through the user's browser, and gives every answer its headers.

    `hosts` are the names under which this machine is asked; "*" is any.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] = HOSTS) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("content-security-policy", POLICY)
            await send(message)

        problem = _problem(Headers(scope=scope), scope["path"], self._hosts)
        if problem is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await JSONResponse({"error": problem}, 403)(scope, receive, send_with_headers)


def _problem(headers: Headers, path: str, hosts: Sequence[str]) -> str | None:
    # a name that another site had pointed at this machine would read the answers as its own
    if not served_host(headers, hosts):
        told = f"the host {', '.join(headers.getlist('host'))[:80]!r} is not this machine"
        return f"{told}; open http://127.0.0.1 with the studio's port"
    # a link may lead here from anywhere, but only our own pages ask for answers
    foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    if foreign and path.startswith(("/api/", "/picture/")):
        return "another site asked for this; open the studio itself"
    return None


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object of a request's body."""
    kind = request.headers.get("content-type", "").split(";")[0].strip()
    # a form of another site cannot send this type
    if kind != "application/json":
        raise BadInput(f"the body is {kind[:40] or 'of no type'!r}; send application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise BodyTooLarge(f"the body has more than {MAX_BODY} bytes; send a part of the text")
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadInput("the body is no JSON; send one object") from None
    if not isinstance(given, dict):
        raise BadInput(f"the body is a JSON {type(given).__name__}; send one object")
    # half of a surrogate pair is no character, and could not be sent back
    return {valid_text(name): valid_text(one) if isinstance(one, str) else one for name, one in given.items()}
