"""Who may come in: hosts, keys and origins are checked before anything is read, and bodies have an end."""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.serve.work import Refusal

# what may be read without a key; TEI's clients post their work to "/", which is no reading
OPEN = frozenset(("/", "/health", "/ping", "/ready", "/metrics", "/docs", "/openapi.json"))
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
_DEEPEST = 16  # levels of a body: no dialect has more than five
_LONGEST_ID = 128  # characters
_CORS_SECONDS = "600"


class Keys:
    """API keys, of which only digests are kept; all are compared, in the same time for a right one and a wrong one."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def owner(self, headers: Headers) -> str | None:
        """Who sends this, by the number of the key; None for a wrong one, or none.

        Clients send "Authorization: Bearer KEY", the key alone, or x-api-key.
        """
        given = headers.get("authorization") or headers.get("x-api-key") or headers.get("api-key") or ""
        digest = _digest(given.removeprefix("Bearer ").removeprefix("bearer ").strip())
        found = None
        for number, known in enumerate(self._digests):
            if hmac.compare_digest(digest, known):
                found = f"key {number}"
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


class Gate:
    """Lets requests through to an application, or refuses them; every answer gets the headers of a careful service.

    What came in has `scope["client_name"]`: whose share of the queue it takes. `refuse` makes the answer of a refusal.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keys,
        hosts: Sequence[str],
        origins: Sequence[str],
        refuse: Callable[[Refusal, str], ASGIApp],
    ) -> None:
        self._app = app
        self._keys = keys
        self._hosts = [host.lower() for host in hosts]
        self._origins = set(origins)
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        request_id = scope["request_id"] = _request_id(headers)
        shared = origin if origin in self._origins or (origin and "*" in self._origins) else None

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
                if request_id is not None:
                    own["x-request-id"] = request_id
                if shared is not None:
                    own["access-control-allow-origin"] = shared
                    own["access-control-expose-headers"] = "retry-after, x-truncated, x-compute-time, x-total-time"
                    own.add_vary_header("origin")
            await send(message)

        try:
            self._check(headers, scope["path"], origin, shared)
            if shared is not None and scope["method"] == "OPTIONS":
                await _preflight(send_with_headers)
                return
            scope["client_name"] = self._client(headers, scope)
        except Refusal as refused:
            await self._refuse(refused, scope["path"])(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, headers: Headers, path: str, origin: str | None, shared: str | None) -> None:
        hosts = headers.getlist("host")
        # a name that another site had pointed at this machine would read the answers as its own
        if not served_host(headers, self._hosts):
            told = f"the host {', '.join(hosts)[:80]!r} is not served here"
            raise Refusal("forbidden", f"{told}; use {sorted(self._hosts)[0]}, or start with --allow-host")
        # a browser says which page asks; without CORS only our own may
        if origin is not None and shared is None and [_netloc(origin)] != [host.lower() for host in hosts]:
            told = f"pages of {origin[:80]!r} may not ask here"
            raise Refusal("forbidden", f"{told}; start with --cors-origin to allow that")

    def _client(self, headers: Headers, scope: Scope) -> str:
        client = scope.get("client")
        address = client[0] if client else "local"
        if not self._keys:
            return address
        owner = self._keys.owner(headers)
        reads = scope["method"] in ("GET", "HEAD") and scope["path"] in OPEN
        if owner is None and not reads:
            raise Refusal("unauthorised", "the API key is wrong or missing; send it as Authorization: Bearer KEY")
        return owner or address


def _request_id(headers: Headers) -> str | None:
    """What the client calls its request, which goes back to it and into the log; None where that is no plain word."""
    given = headers.get("x-request-id", "")
    return given if 0 < len(given) <= _LONGEST_ID and given.isascii() and given.isprintable() else None


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # brackets that hold no address
        return ""


def served_host(headers: Headers, allowed: Sequence[str]) -> bool:
    """Whether a request names one of these hosts, and no other; "*" is any."""
    named = headers.getlist("host")
    name = named[0].lower() if len(named) == 1 else ""
    if not name.endswith("]"):  # an address of IPv6 without a port
        name = name.rsplit(":", 1)[0]
    return "*" in allowed or name in allowed


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", b"authorization, content-type, x-api-key, x-timeout-ms"),
        (b"access-control-max-age", _CORS_SECONDS.encode()),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def read_json(request: Request, *, most: int, seconds: float) -> dict[str, Any]:
    """The JSON object of a request's body, or why there is none."""
    kind = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Refusal("media_type", f"the body is {kind[:40]!r}; send application/json")
    content = decode(await _body(request, most, seconds))
    if not isinstance(content, dict):
        raise Refusal("invalid", f"the body is a JSON {type(content).__name__}; send one object")
    return content


async def _body(request: Request, most: int, seconds: float) -> bytes:
    said = request.headers.get("content-length", "")
    too_large = Refusal("too_large", f"the body has more than {most} bytes; send it in parts")
    if said.isdecimal() and int(said[:12]) > most:
        raise too_large
    body = bytearray()
    until = monotonic() + seconds
    parts = request.stream()
    while True:
        try:
            part = await asyncio.wait_for(anext(parts, None), max(until - monotonic(), 0.0))
        except TimeoutError:
            told = f"the body had not come after {seconds:g} s"
            raise Refusal("slow_body", f"{told}; send it at once") from None
        if part is None:
            return bytes(body)
        body += part
        if len(body) > most:
            raise too_large


def decode(body: bytes) -> Any:
    """Read JSON that anybody may have sent. Half of a surrogate pair is no character, and no JSON."""
    try:
        content = msgspec.json.decode(body)
    except RecursionError:
        content = None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise Refusal("invalid", f"the body is no JSON ({wrong}); send one object") from None
    if content is None or _deeper(content, _DEEPEST):
        raise Refusal("invalid", f"the body is nested more than {_DEEPEST} deep, or null; send one flat object")
    return content


def _deeper(content: Any, levels: int) -> bool:
    """Whether values are nested deeper than so many levels."""
    layer = [content] if isinstance(content, dict | list) else []
    for _ in range(levels):
        inner = (one.values() if isinstance(one, dict) else one for one in layer)
        layer = [one for part in inner for one in part if isinstance(one, dict | list)]
        if not layer:
            return False
    return True
