"""What a dialect is: routes that turn a JSON body into `Work` and `Done` into an answer, and its own error bodies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from clearhead.serve.work import Catalogue, Done, Reason, Refusal, Work

Body = TypeVar("Body", bound=msgspec.Struct)
Params = Mapping[str, str]  # of the path, such as {model}


@dataclass(frozen=True, slots=True)
class Stream:
    """How generated text is sent while it is written: server-sent events, each a JSON value, or a str as it is."""

    piece: Callable[[int, str], Any]  # the number of a piece, from 0, and its text
    end: Callable[[Done], Sequence[Any]]  # the last events


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was understood: the work, and how its result is said. With `stream`, while it is written."""

    work: Work
    answer: Callable[[Done], Any]  # what msgspec encodes
    stream: Stream | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Post:
    """One route that asks for work. Several may share a path: the first whose `takes` knows the body is taken.

    `body` is the type that OpenAPI shows; `read(content, params)` gives the call, or raises `Refusal`.
    """

    path: str
    read: Callable[[dict[str, Any], Params], Call]
    body: type[msgspec.Struct]
    about: str
    example: Mapping[str, Any]
    takes: Callable[[Mapping[str, Any]], bool] = lambda content: True


@dataclass(frozen=True, slots=True)
class Get:
    """One route that tells what is served; it never waits for a model."""

    path: str
    answer: Callable[[Catalogue, Params], Any]
    about: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """The routes of one kind of client, and the body that it reads an error from: a status, and JSON."""

    name: str
    posts: Sequence[Post]
    gets: Sequence[Get]
    error: Callable[[Refusal], tuple[int, Any]]


def convert(content: Mapping[str, Any], body: type[Body]) -> Body:
    """Read a JSON object by the types of a struct; what does not fit is refused with its field."""
    try:
        return msgspec.convert(content, body)
    except msgspec.ValidationError as wrong:
        message, _, place = str(wrong).partition(" - at ")
        raise Refusal("invalid", _sentence(message, place), field=_field(message, place)) from None


def listed(given: Any) -> tuple[list[Any], bool]:
    """One item or a list of them -> a list, and whether it was one."""
    return (given, False) if isinstance(given, list) else ([given], True)


def _field(message: str, place: str) -> str | None:
    named = place.strip("`").removeprefix("$").removeprefix(".")
    if named:
        return named
    quoted = message.split("`")  # Object missing required field `input`
    return quoted[1] if len(quoted) > 1 and "field" in message else None


def _sentence(message: str, place: str) -> str:
    named = place.strip("`").removeprefix("$").removeprefix(".")
    said = message[0].lower() + message[1:]
    return f"{named}: {said}" if named else f"the body: {said}"


def openai_error(refusal: Refusal) -> tuple[int, Any]:
    """Say an error as OpenAI does: {"error": {message, type, param, code}}, which most clients show to their users."""
    kind, code = _OPENAI_ERRORS.get(refusal.reason, ("server_error", refusal.reason))
    error = {"message": refusal.message, "type": kind, "param": refusal.field, "code": code}
    return refusal.status, {"error": error}


_WRONG = "invalid_request_error"
# the type and the code of a refusal; what is not here is the service's own fault
_OPENAI_ERRORS: dict[Reason, tuple[str, str | None]] = {
    "invalid": (_WRONG, None),
    "wrong_task": (_WRONG, "wrong_task"),
    "unauthorised": ("authentication_error", "invalid_api_key"),
    "forbidden": ("permission_error", "forbidden"),
    "unknown_model": (_WRONG, "model_not_found"),
    "not_found": (_WRONG, "not_found"),
    "slow_body": (_WRONG, "slow_body"),
    "method": (_WRONG, "method_not_allowed"),
    "media_type": (_WRONG, "unsupported_media_type"),
    "too_large": (_WRONG, "too_large"),
    "too_long": (_WRONG, "context_length_exceeded"),
    "overloaded": ("rate_limit_error", "rate_limit_exceeded"),
}
