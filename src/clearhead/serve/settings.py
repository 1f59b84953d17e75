"""What a service is started with: models, limits, who may come in, what is logged."""

import os
import re
from collections.abc import Iterable
from typing import Self

import msgspec

from clearhead.errors import BadInput, require

_PREFIX = "CLEARHEAD_SERVE_"
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a service; those of the worker go to its process as they are."""

    # what computes
    models: dict[str, str] = {}  # name -> folder, or name on the hub; the built-in ones are there too
    indexes: dict[str, str] = {}  # name -> folder of a saved index, or URL of a store
    device: str = "cpu"
    dtype: str = "float32"
    int8: str | None = None  # a file with texts on which 8 bits must agree
    preload: bool = True  # load the models at the start, not when they are first asked
    reload: bool = False  # take a model's new files when they change
    max_memory: int | None = None  # bytes of the worker over which models that were not asked lately are let go
    max_queue_tokens: int = 65_536
    # what is taken from clients
    max_body_bytes: int = 2_000_000
    body_timeout: float = 20.0  # seconds in which a body must have come
    timeout: float = 60.0  # seconds in which an answer must have gone, unless the request says otherwise
    grace: float = 30.0  # seconds that are left to what is being answered when the service ends
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")  # "*": any
    studio: bool = False
    log_format: str = "text"
    log_texts: bool = False

    def __post_init__(self) -> None:
        for name in ("max_queue_tokens", "max_body_bytes", "body_timeout", "timeout"):
            value = getattr(self, name)
            require(value > 0, f"{name}={value} must be more than 0", BadInput)
        require(self.grace >= 0, f"grace={self.grace} must not be negative", BadInput)
        require(self.log_format in ("text", "json"), f"log_format={self.log_format!r} is text or json", BadInput)
        for name in self.models:
            fits = re.fullmatch(r"[\w][\w./-]*", name) is not None and not name.startswith(("built-in", "builtin"))
            told = f"a model cannot be served as {name!r}"
            require(fits, f"{told}; choose letters, digits, and - . / _, and no name of a built-in model", BadInput)
            # clients of NIM put these behind the name of any model
            fits = not name.endswith(("-query", "-passage"))
            require(fits, f"{told}; -query and -passage say which vectors are wanted, so leave them off", BadInput)
        told = "the studio is opened by a browser, which sends no API key"
        require(not (self.studio and self.api_keys), f"{told}; leave out --studio, or the keys", BadInput)
        short = [key for key in self.api_keys if len(key) < _SHORTEST_KEY]
        require(not short, f"an API key has fewer than {_SHORTEST_KEY} characters; choose a longer one", BadInput)

    @classmethod
    def from_environment(cls) -> Self:
        """Settings out of variables such as CLEARHEAD_SERVE_TIMEOUT; a list has commas, a mapping name=value."""
        found: dict[str, object] = {}
        for name in cls.__struct_fields__:
            given = os.environ.get(_PREFIX + name.upper())
            if given is None:
                continue
            if name in ("models", "indexes"):
                found[name] = named(given.split(","), name)
            elif name in ("api_keys", "cors_origins", "allowed_hosts"):
                found[name] = [part.strip() for part in given.split(",") if part.strip()]
            elif name == "max_memory":
                found[name] = size(given)
            else:
                found[name] = given
        try:
            return msgspec.convert(found, cls, strict=False)
        except msgspec.ValidationError as wrong:
            raise BadInput(f"{_PREFIX}…: {wrong}") from None


_SHORTEST_KEY = 8


def named(given: Iterable[str], what: str) -> dict[str, str]:
    """Read NAME=FOLDER, each once."""
    found: dict[str, str] = {}
    for one in given:
        name, equals, folder = one.partition("=")
        shown = "of a URL" if "://" in one else repr(one)  # which may hold a password
        good = bool(name and equals and folder) and "://" not in name
        require(good, f"{what} {shown} is not written as NAME=FOLDER", BadInput)
        require(name not in found, f"{what}: the name {name!r} stands twice; choose another", BadInput)
        found[name] = folder
    return found


def size(written: str) -> int:
    """Read a number of bytes such as 4GB or 512MiB."""
    match = _SIZE.fullmatch(written.strip())
    if match is None:
        raise BadInput(f"{written!r} is no size; write a number of bytes such as 4GB or 512MB")
    return int(float(match[1]) * 1024 ** _UNITS[match[2].lower()])
