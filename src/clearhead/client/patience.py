"""When a service is asked again, after how long, and which error it is in the end."""

import json
import random
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from clearhead.errors import (
    BadInput,
    ClearheadError,
    InputTooLong,
    NotFound,
    Unavailable,
    WrongTask,
    reason,
    short,
)

AGAIN = frozenset({408, 429, 503})  # a slow body, too much to do, loading or draining: each may go better next time
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 8.0  # seconds; each pause is twice the last
_SPREAD = 0.25  # of a pause, at random, so that clients which were refused together do not come back together


class TooLarge(BadInput):
    """More than the service takes in one request: of several items, each half may still be taken."""


class Patience:
    """What is left of the time and of the attempts for one request. Asking twice does no harm: nothing is kept.

    A request that may be repeated costs a wait, which `after` and `after_error` give in seconds; else they raise.
    """

    def __init__(self, url: str, timeout: float, retries: int) -> None:
        self._url = url
        self._timeout = timeout
        self._deadline = monotonic() + timeout
        self._left = retries
        self._pause = _FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """How long an answer may take."""
        return max(self._deadline - monotonic(), 0.001)

    def headers(self) -> dict[str, str]:
        """Let the service drop what nobody will wait for."""
        return {"x-timeout-ms": str(max(int(self.seconds * 1000), 1))}

    def after(self, status: int, headers: Mapping[str, str], content: bytes) -> float:
        """Seconds to wait after an answer that is no result."""
        error = refusal(self._url, status, content)
        if status not in AGAIN:
            raise error
        return self._wait(error, _seconds(headers.get("retry-after")))

    def after_error(self, wrong: Exception, *, late: bool) -> float:
        """Seconds to wait after a connection that was not made, or broke; `late`: there was none of the time left."""
        if late:
            raise Unavailable(
                f"the service at {self._url} gave no answer within {self._timeout:g} seconds; "
                "send less at a time, or give it more with timeout"
            )
        told = f"there is no answer from {self._url} ({reason(wrong) or type(wrong).__name__})"
        return self._wait(Unavailable(f"{told}; check the address, and that clearhead serve runs there"), None)

    def _wait(self, error: ClearheadError, asked: float | None) -> float:
        pause = self._pause if asked is None else asked
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        pause *= 1 + _SPREAD * random.random()  # noqa: S311 – nothing secret
        if self._left == 0 or monotonic() + pause >= self._deadline:
            raise error
        self._left -= 1
        return pause


def _seconds(written: str | None) -> float | None:
    """The seconds of a retry-after; it may be a date, which no service of ours writes."""
    try:
        return None if written is None else max(float(written), 0.0)
    except ValueError:
        return None


def refusal(url: str, status: int, content: bytes) -> ClearheadError:
    """The error that a service tells of by its status and body."""
    message, code = _told(content)
    said = message or f"{url} answered with status {status} and {short(content[:200].decode(errors='replace'))}"
    if status in (401, 403):
        return BadInput(f"{said}; give the key of the service as api_key, or in CLEARHEAD_API_KEY")
    if status == 404 and not message:
        return NotFound(f"there is no such route at {url} (status 404); check that clearhead serve runs there")
    if code == "wrong_task":
        return WrongTask(said)
    kind: Callable[[str], ClearheadError] | None = _CODES.get(code or "") or _STATUS.get(status)
    if kind is None:
        kind = BadInput if 400 <= status < 500 else Unavailable
    return kind(said)


_CODES: dict[str, Callable[[str], ClearheadError]] = {"too_long": InputTooLong, "context_length_exceeded": InputTooLong}
_STATUS: dict[int, Callable[[str], ClearheadError]] = {
    404: NotFound,
    413: TooLarge,
    **dict.fromkeys(AGAIN, Unavailable),
}


def _told(content: bytes) -> tuple[str | None, str | None]:
    """The sentence and the code of an error's body, as far as it has them: {"error": {"message", "code"}}."""
    try:
        body: Any = json.loads(content)
    except ValueError:
        return None, None
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else None), None
    message, code = error.get("message"), error.get("code")
    return (message if isinstance(message, str) else None), (code if isinstance(code, str) else None)
