"""Where passages lie that outlive a process: what a store does, and how one is named."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from clearhead.data.documents import Document
from clearhead.errors import BadInput, near, require
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.passages import Span
from clearhead.pipelines.search.where import Condition, Metadata

EXACT_UP_TO = 50_000  # passages; beyond them a graph finds what is near
FORMAT = 1
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
_SHOWN_OPTIONS = ("table", "host", "port")


class Entry(NamedTuple):
    """A document as it is stored: where its passages start and end, and their unit vectors, (passages, D)."""

    document: Document
    digest: str
    spans: Sequence[Span]
    vectors: Vectors


class Found(NamedTuple):
    """A passage that was found, and the cosine of its vector with the one that was looked for, if any was."""

    text: str
    source: str
    start: int
    end: int
    metadata: Metadata
    cosine: float


class Count(NamedTuple):
    """How many passages a store holds, and how many words these have."""

    passages: int
    words: int


class Store(Protocol):
    """Passages, their words and their vectors. Many may read it while one writes.

    A document is known by its source. What `add` and `delete` do is done whole or not at all, whatever ends a process.
    """

    @property
    def batch(self) -> int:
        """How many passages go into one transaction."""

    def probe(self) -> Vectors | None:
        """The fingerprint of the model: what it made of three sentences; None of a store that is still empty."""

    def create(self, probe: Vectors) -> None:
        """Make room for vectors of this model, unless there is some."""

    def count(self) -> Count:
        """How much it holds."""

    def digests(self, sources: Sequence[str]) -> Mapping[str, str]:
        """The digests of those documents that are there, by source."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Store documents in the place of those of the same sources."""

    def delete(self, sources: Sequence[str]) -> int:
        """Remove documents; how many were there."""

    def settle(self) -> None:
        """Make what many passages are found by, after documents were added; without it searches are slower."""

    def nearest(self, vector: Vectors, top: int, where: Sequence[Condition], *, exact: bool | None) -> list[Found]:
        """The `top` passages whose vectors are nearest to a unit vector; `exact`: True, False, or None as suits."""

    def sharing(
        self, asked: Mapping[str, int], count: Count, vector: Vectors | None, top: int, where: Sequence[Condition]
    ) -> list[Found]:
        """The `top` passages that share the rarest words; of each word `asked` says how many passages have it."""

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """In how many passages each of the words is; those that are in none may be left out."""

    def sample(self, count: int) -> Vectors:
        """The vectors of any passages, at most so many, (count, D); of fewer passages all."""

    def close(self) -> None:
        """Let go of files and connections."""


def document_digest(document: Document, spans: Sequence[Span]) -> str:
    """SHA-256 of all that is stored of a document: its text, how that is cut, what is known of it."""
    about = json.dumps([document.metadata, [[*span] for span in spans]], sort_keys=True)
    return hashlib.sha256(f"{about}\n{document.text}".encode("utf-8", "surrogatepass")).hexdigest()


def key_of(*parts: str | int) -> bytes:
    """A key of 16 bytes, evenly spread: those that come first by it are a fair sample of all."""
    return hashlib.sha256(json.dumps(parts).encode()).digest()[:16]


def is_url(name: str) -> bool:
    """Whether a name is that of a store in a database, and not that of a folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", name) is not None


@dataclass(frozen=True)
class Address:
    """Where a store is. What it prints has neither passwords nor options, which may be secret too."""

    scheme: str
    url: str  # as it was given, without the options that are ours
    shown: str
    table: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return self.shown

    __str__ = __repr__

    @classmethod
    def read(cls, given: str) -> Address:
        """Read postgresql://user@host/database?table=notes, lancedb:///folder, lancedb+s3://bucket/folder."""
        try:
            parts = urlsplit(given)
            host, port, options = parts.hostname or "", parts.port, dict(parse_qsl(parts.query, strict_parsing=False))
        except ValueError:  # whose words would show it
            raise BadInput(f"the URL of the store cannot be read; {_FORMS}") from None
        scheme = parts.scheme.lower()
        kind = scheme.partition("+")[0]
        require(kind in _KINDS, f"there is no store of the kind {scheme}:; {near(scheme, _KINDS)}; {_FORMS}", BadInput)
        table = options.pop("table", "clearhead")
        fits = all(_TABLE.fullmatch(part) is not None for part in table.split(".")) and table.count(".") <= 1
        told = f"{table[:80]!r} cannot be the name of a table"
        require(fits, f"{told}; choose letters, digits and _, up to 50, and SCHEMA.NAME where it is in one", BadInput)
        at = f"{unquote(parts.username)}@" if parts.username else ""
        place = f"{at}{host}{'' if port is None else f':{port}'}{parts.path}"
        shown = {name: value for name, value in options.items() if name in _SHOWN_OPTIONS} | {"table": table}
        extra = "&".join(f"{name}={value}" for name, value in shown.items() if (name, value) != ("table", "clearhead"))
        apart = "//" if "://" in given else ""
        return cls(scheme, given, f"{scheme}:{apart}{place}{'?' if extra else ''}{extra}", table, options)


_KINDS = ("postgresql", "postgres", "lancedb")
_FORMS = "write postgresql://USER@HOST/DATABASE?table=NAME, lancedb:///FOLDER, lancedb+s3://BUCKET/FOLDER, or a folder"


def open_store(name: str) -> Store:
    """The store that a URL names, or a folder; it need not be there yet."""
    if not is_url(name):
        from clearhead.pipelines.search.folder import FolderStore

        return FolderStore(name)
    address = Address.read(name)
    if address.scheme.startswith("lancedb"):
        from clearhead.pipelines.search.lance import LanceStore

        return LanceStore(address)
    from clearhead.pipelines.search.postgres import PostgresStore

    return PostgresStore(address)
