"""Where a service is and how it is reached: what the client and its asynchronous twin share, without any waiting."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from clearhead.client.patience import Patience, refusal
from clearhead.client.request import Asked, Item
from clearhead.errors import BadInput, Unavailable, explained, require
from clearhead.io import Record, optional

Result = TypeVar("Result")

_CONNECT = 5.0  # seconds in which a machine that is there takes a connection
_KEY = "CLEARHEAD_API_KEY"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is, and how it is asked."""

    url: str
    api_key: str | None
    model: str | None
    timeout: float
    retries: int

    @classmethod
    def of(cls, url: str, api_key: str | None, model: str | None, timeout: float, retries: int) -> Self:
        """Check what was given, and find the key if none is named."""
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none, or half of an IPv6 address
            good = False
        require(good, f"{url!r} is no address of a service; write one such as http://127.0.0.1:8643", BadInput)
        require(timeout > 0, f"timeout={timeout} must be more than 0 seconds", BadInput)
        require(retries >= 0, f"retries={retries} must not be negative", BadInput)
        # the service may be told several keys in the same variable
        key = api_key or os.environ.get(_KEY, "").partition(",")[0].strip() or None
        require(key is None or key.isascii(), "the API key has letters that no header can hold; check it", BadInput)
        return cls(url.rstrip("/").removesuffix("/v1"), key, model, timeout, retries)

    def options(self) -> dict[str, Any]:
        """How the connections are made."""
        key = {} if self.api_key is None else {"authorization": f"Bearer {self.api_key}"}
        headers = {"content-type": "application/json", "user-agent": "clearhead", **key}
        # no proxy leads to this machine, whatever the environment names for others
        return {"base_url": self.url, "headers": headers, "trust_env": not _is_here(self.url)}

    def patience(self) -> Patience:
        """For one request."""
        return Patience(self.url, self.timeout, self.retries)


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


@dataclass(frozen=True, slots=True)
class ServedModel(Record):
    """A model that can be asked for by its id, or a skill of one, its parent; what is not loaded yet tells less."""

    id: str
    parent: str | None
    uses: tuple[str, ...]
    loaded: bool
    family: str | None
    parameters: int | None
    max_length: int | None  # tokens that are read at once
    dimensions: int | None
    labels: tuple[str, ...]


class Connection:
    """What both clients do with bytes: requests are written and answers read, and nothing is waited for."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._httpx = optional("httpx2", "a client of a service", "client")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    @property
    def model(self) -> str | None:
        """The id that is asked where a method names none."""
        return self._address.model

    def _named(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a call, with the model of the connection where they name none."""
        if self._address.model is not None and options.get("model") is None:
            return {**options, "model": self._address.model}
        return options

    def _wait_for(self, patience: Patience) -> Any:
        left = patience.seconds
        return self._httpx.Timeout(left, connect=min(left, _CONNECT))

    def _after(self, patience: Patience, wrong: Exception) -> float:
        late = isinstance(wrong, self._httpx.TimeoutException) and not isinstance(wrong, self._httpx.ConnectTimeout)
        return patience.after_error(wrong, late=late)

    def _read(self, content: bytes) -> Any:
        with explained(Unavailable, self._strange):
            return json.loads(content)

    @property
    def _strange(self) -> str:
        told = f"{self._address.url} answered what this client does not understand ({{}})"
        return f"{told}; check that a clearhead serve of the same version runs there"

    def _results(self, asked: Asked[Result], part: Sequence[Item], content: Any) -> list[Result]:
        with explained(Unavailable, self._strange):
            require(len(content) == len(part), f"{len(content)} results of {len(part)}", Unavailable)
            found = [one for one in map(asked.result, content) if one is not None]
        if asked.progress is not None:
            asked.progress(asked.count(part))
        return found

    def _models(self, content: Any) -> list[ServedModel]:
        with explained(Unavailable, self._strange):
            return [
                ServedModel(
                    id=one["id"],
                    parent=one.get("parent"),
                    uses=tuple(one.get("uses") or ()),
                    loaded=bool(one.get("loaded")),
                    family=one.get("family"),
                    parameters=one.get("parameters"),
                    max_length=one.get("max_model_len"),
                    dimensions=one.get("dimensions"),
                    labels=tuple(one.get("labels") or ()),
                )
                for one in content["data"]
            ]

    def _piece(self, line: str) -> str | None:
        """The text of one line of a stream, if it has some."""
        if not line.startswith("data:") or line == "data: [DONE]":
            return None
        event = self._read(line.removeprefix("data:").encode())
        if isinstance(event, dict) and "error" in event:
            raise refusal(self._address.url, 503, json.dumps(event).encode())
        return event.get("piece") if isinstance(event, dict) else None

    def _broke_off(self, wrong: Exception) -> Unavailable:
        return Unavailable(f"the text from {self._address.url} broke off ({wrong}); ask for it again")
