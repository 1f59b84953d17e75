"""The routes of the service as an OpenAPI 3.1 document, made of the dialects: their bodies, examples and errors."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from clearhead.serve.dialects.dialect import Dialect, Get, Post
from clearhead.serve.work import Reason, Refusal

Json: TypeAlias = dict[str, Any]

_OWN = "service"  # the tag of the routes that are no dialect's
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")  # {model}, and {model:path} as starlette has it

# why a request may be refused, in the order of their statuses; each dialect says it in its own way
_WHY: dict[Reason, str] = {
    "unauthorised": "There is no API key in the request, or another one.",
    "forbidden": "The Host header names another host.",
    "not_found": "There is no such thing.",
    "unknown_model": "There is no model of that name.",
    "slow_body": "The body did not come in time.",
    "too_large": "The body is larger than its limit, or has more tokens than the queue takes.",
    "too_long": "A text is longer than the model reads at once, and the request wants no windows.",
    "media_type": "The body is not JSON.",
    "invalid": "The request cannot be understood; the sentence says which field, and what to do.",
    "wrong_task": "The model has no head for this use.",
    "overloaded": "The queue is full; come back after as many seconds as retry-after says.",
    "internal": "Something went wrong that should not have.",
    "unavailable": "The service is loading or ending, or its worker was lost; come back.",
    "deadline": "The deadline passed, of the service or of x-timeout-ms.",
}
_OF_A_GET: tuple[Reason, ...] = ("unauthorised", "forbidden", "not_found", "internal", "unavailable")
_TIMEOUT: Json = {
    "name": "x-timeout-ms",
    "in": "header",
    "required": False,
    "description": "Milliseconds in which the answer must have gone; after that it is 504.",
    "schema": {"type": "integer", "minimum": 1},
}
_HEADERS: Json = {
    "x-truncated": {
        "description": "How many items were cut, since the request asked for that.",
        "schema": {"type": "integer"},
    },
    "x-compute-tokens": {"description": "Tokens that were read.", "schema": {"type": "integer"}},
    "x-total-time": {"description": "Milliseconds from the request to the answer.", "schema": {"type": "number"}},
}
_RETRY_AFTER: Json = {
    "retry-after": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer", "minimum": 0}}
}


def document(dialects: Sequence[Dialect], *, title: str, version: str, secured: bool) -> Json:
    """Describe all routes; `secured` if they need an API key. A path that dialects share takes the body of any.

    "anyOf" it is, not "oneOf": some bodies are those of two services, whose answer is then the same.
    """
    posts: dict[str, list[tuple[Dialect, Post]]] = {}
    gets: dict[str, list[tuple[Dialect, Get]]] = {}
    for dialect in dialects:
        for post in dialect.posts:
            posts.setdefault(_template(post.path), []).append((dialect, post))
        for get in dialect.gets:
            gets.setdefault(_template(get.path), []).append((dialect, get))
    errors = _Errors(secured)
    bodies = list(dict.fromkeys(post.body for sharing in posts.values() for _, post in sharing))
    schema_of, schemas = _schemas(bodies)
    paths: dict[str, Json] = _own_paths()
    for path, told in gets.items():
        paths.setdefault(path, {}).setdefault("get", _get(path, told, errors))
    for path, sharing in posts.items():
        paths.setdefault(path, {})["post"] = _post(path, sharing, schema_of, errors)
    components: Json = {"schemas": schemas, "responses": errors.responses, "parameters": {"timeout": _TIMEOUT}}
    found: Json = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "tags": [{"name": name} for name in (*(dialect.name for dialect in dialects), _OWN)],
        "paths": paths,
        "components": components,
    }
    if secured:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
    return found


_SCHEMAS = "#/components/schemas/"


def _schemas(bodies: Sequence[type[msgspec.Struct]]) -> tuple[dict[type[msgspec.Struct], Json], Json]:
    """The reference to each body, and the schemas by name; where names are alike, the module's is put before them."""
    references, schemas = msgspec.json.schema_components(bodies, ref_template=_SCHEMAS + "{name}")

    def brief(name: str) -> str:
        return ".".join(name.split(".")[-2:])

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(one) for one in value]
        if not isinstance(value, dict):
            return value
        found = {key: renamed(one) for key, one in value.items()}
        if isinstance(target := found.get("$ref"), str):
            found["$ref"] = _SCHEMAS + brief(target.removeprefix(_SCHEMAS))
        return found

    named = {brief(name): renamed(schema) for name, schema in schemas.items()}
    return dict(zip(bodies, map(renamed, references), strict=True)), named


def _post(
    path: str,
    sharing: Sequence[tuple[Dialect, Post]],
    schema_of: dict[type[msgspec.Struct], Json],
    errors: "_Errors",
) -> Json:
    schemas = [schema_of[body] for body in dict.fromkeys(post.body for _, post in sharing)]
    content = {
        "schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas},
        "examples": _examples(sharing),
    }
    answer: Json = {"application/json": {"schema": {}}}
    if any("stream" in post.body.__struct_fields__ for _, post in sharing):
        answer["text/event-stream"] = {"schema": {"type": "string"}}
    done: Json = {"description": "What was found.", "headers": _HEADERS, "content": answer}
    return {
        **_operation("post", path, sharing),
        "parameters": [*_parameters(path), {"$ref": "#/components/parameters/timeout"}],
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {"200": done, **errors.of([dialect for dialect, _ in sharing], "post")},
    }


def _get(path: str, told: Sequence[tuple[Dialect, Get]], errors: "_Errors") -> Json:
    # of several that answer on one path, the first is asked
    dialect, _ = told[0]
    return {
        **_operation("get", path, told[:1]),
        "parameters": _parameters(path),
        "responses": {
            "200": {"description": "What is served.", "content": {"application/json": {"schema": {}}}},
            **errors.of([dialect], "get"),
        },
    }


def _operation(method: str, path: str, routes: Sequence[tuple[Dialect, Post | Get]]) -> Json:
    abouts = list(dict.fromkeys(route.about for _, route in routes))
    words = "_".join(re.findall(r"\w+", path)) or "root"
    found: Json = {
        "operationId": f"{method}_{words}",
        "summary": abouts[0],
        "tags": list(dict.fromkeys(dialect.name for dialect, _ in routes)),
    }
    return {**found, "description": " ".join(abouts)} if len(abouts) > 1 else found


def _examples(sharing: Iterable[tuple[Dialect, Post]]) -> Json:
    """An example for each post, under the name of its dialect, which the page of examples sorts them by."""
    found: Json = {}
    for dialect, post in sharing:
        name, count = _word(dialect.name), 2
        while name in found:
            name, count = f"{_word(dialect.name)}-{count}", count + 1
        found[name] = {"summary": post.about, "value": post.example, "x-dialect": dialect.name}
    return found


def _parameters(path: str) -> list[Json]:
    names = _PARAMETER.findall(path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _template(path: str) -> str:
    return _PARAMETER.sub(r"{\1}", path)


def _word(name: str) -> str:
    return "-".join(re.findall(r"\w+", name.lower()))


class _Errors:
    """The answers to what is refused, each described once, with bodies as the dialects write them."""

    def __init__(self, secured: bool) -> None:
        self.secured = secured
        self.responses: dict[str, Json] = {}

    def of(self, dialects: Sequence[Dialect], method: Literal["get", "post"]) -> dict[str, Json]:
        """References by status, for a route that these dialects share."""
        sharing = list({dialect.name: dialect for dialect in dialects}.values())
        possible = _WHY if method == "post" else _OF_A_GET
        why = [reason for reason in possible if self.secured or reason != "unauthorised"]
        found: dict[int, list[tuple[Dialect, Reason, Any]]] = {}
        for dialect in sharing:
            for reason in why:
                status, body = dialect.error(Refusal(reason, _WHY[reason]))
                found.setdefault(status, []).append((dialect, reason, body))
        names = "-".join(_word(dialect.name) for dialect in sharing)
        return {str(status): self._response(f"{names}-{method}-{status}", found[status]) for status in sorted(found)}

    def _response(self, name: str, said: Sequence[tuple[Dialect, Reason, Any]]) -> Json:
        if name not in self.responses:
            reasons = dict.fromkeys(reason for _, reason, _ in said)
            examples = {f"{_word(dialect.name)}-{reason}": {"value": body} for dialect, reason, body in said}
            response: Json = {
                "description": " ".join(_WHY[reason] for reason in reasons),
                "content": {"application/json": {"schema": {}, "examples": examples}},
            }
            if reasons.keys() & {"overloaded", "unavailable"}:
                response["headers"] = _RETRY_AFTER
            self.responses[name] = response
        return {"$ref": f"#/components/responses/{name}"}


def _own_paths() -> dict[str, Json]:
    """What the service answers by itself, without a key."""

    def route(name: str, about: str, answers: Json) -> Json:
        return {
            "get": {
                "operationId": f"get_{name}",
                "summary": about,
                "tags": [_OWN],
                "security": [],
                "responses": answers,
            }
        }

    some: Json = {"content": {"application/json": {"schema": {}}}}
    metrics: Json = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    ready: Json = {
        "200": {"description": "A request would be answered.", **some},
        "503": {"description": "The models are being loaded, or the service is ending.", **some},
    }
    return {
        "/health": route(
            "health", "Is the service there? No model is asked.", {"200": {"description": "It is there.", **some}}
        ),
        "/ready": route("ready", "Would a request be answered now?", ready),
        "/metrics": route(
            "metrics",
            "Counts and times, as Prometheus reads them.",
            {"200": {"description": "Its text format.", **metrics}},
        ),
    }
