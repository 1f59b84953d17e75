"""The store in PostgreSQL, with pgvector: three tables, written in transactions, searched by any number of processes.

Values are bound, never written into a statement; names of tables are checked, and quoted.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlsplit

import numpy as np

from clearhead.errors import BadInput, NotFound, Unavailable, reason, require
from clearhead.io import optional
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.bm25 import K1, B, rarity, words
from clearhead.pipelines.search.store import EXACT_UP_TO, FORMAT, Address, Count, Entry, Found, key_of
from clearhead.pipelines.search.where import Condition, kind_of

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

_BATCH = 1_000  # passages in a transaction
_WIDEST = 4_000  # numbers of a vector that pgvector makes a graph of, in half precision
_MOST_SHARING = 20_000  # passages whose words are looked at for one query; of a single word, all that have it
_MOST_WORDS = 64  # of a query, the rarest, by which passages are put in order
_LONGEST_WORD = 500  # characters; PostgreSQL keeps none of more than 2,046 bytes
_MOST_POSITIONS = 255  # of one word, which PostgreSQL keeps
_LOOKED_AT = 128  # candidates in the graph
_MEMORY = "2GB"  # for making the graph, which takes some 1.3 kB for each vector of 384 numbers
_WAIT = 10  # seconds for a server that does not answer

_TABLES = """
CREATE TABLE IF NOT EXISTS {facts} (
    single boolean PRIMARY KEY DEFAULT true CHECK (single), format integer NOT NULL, probe real[] NOT NULL,
    passages bigint NOT NULL DEFAULT 0, words bigint NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS {words} (word text COLLATE "C" PRIMARY KEY, passages bigint NOT NULL);
CREATE TABLE IF NOT EXISTS {passages} (
    id uuid PRIMARY KEY, document uuid NOT NULL, digest text NOT NULL, source text NOT NULL,
    start integer NOT NULL, stop integer NOT NULL, text text NOT NULL, metadata jsonb NOT NULL,
    length integer NOT NULL, words tsvector NOT NULL, embedding vector({width}) NOT NULL);
CREATE INDEX IF NOT EXISTS {by_document} ON {passages} (document);
CREATE INDEX IF NOT EXISTS {by_metadata} ON {passages} USING gin (metadata jsonb_path_ops);
CREATE INDEX IF NOT EXISTS {by_words} ON {passages} USING gin (words);
"""
_LESS = """
WITH gone AS (DELETE FROM {passages} WHERE document = ANY(%s) RETURNING document, length, words),
fewer AS (
    UPDATE {words} AS held SET passages = held.passages - counted.passages
    FROM (SELECT lexeme, count(*) AS passages FROM gone, unnest(gone.words) GROUP BY lexeme) AS counted
    WHERE held.word = counted.lexeme RETURNING 1)
SELECT count(*), coalesce(sum(length), 0), count(DISTINCT document), (SELECT count(*) FROM fewer) FROM gone
"""
_MORE = """
INSERT INTO {words} AS held (word, passages) SELECT * FROM unnest(%s::text[], %s::bigint[])
ON CONFLICT (word) DO UPDATE SET passages = held.passages + excluded.passages
"""
_COPY = """
COPY {passages} (id, document, digest, source, start, stop, text, metadata, length, words, embedding) FROM STDIN
WITH (FORMAT BINARY)
"""
_TYPES = ("uuid", "uuid", "text", "text", "int4", "int4", "text", "jsonb", "int4", "tsvector", "vector")
# n / (n + k1 (1 - b + b length / mean)) of the n that ts_rank stands for, by the word's rarity
_BM25 = """(
    SELECT sum(asked.rarity * 0.645 * rank / (0.645 * rank + {k1} * (1 - {b} + {b} * length / %s) * (1.0001 - rank)))
    FROM unnest(%s::float8[], %s::text[]::tsquery[]) AS asked (rarity, word),
    LATERAL ts_rank('{{1,1,1,1}}', words, asked.word) AS rank) DESC, id
"""
_FOUND = "SELECT text, source, start, stop, metadata, "


class _NoRoom(Unavailable):
    """The server's disk, or the memory that its processes share, is full."""


class PostgresStore:
    """Connections are opened as searches need them, and kept."""

    def __init__(self, address: Address) -> None:
        self._library = optional("psycopg", "a store in PostgreSQL", "postgres")
        self._vectors = optional("pgvector.psycopg", "a store in PostgreSQL", "postgres")
        self._dumper = _lexeme_dumper(self._library)
        self._address = address
        self._secrets = [unquote(urlsplit(address.url).password or ""), *address.options.values()]
        self._idle: list[Connection[Any]] = []
        self._lock = Lock()
        self._probe: Vectors | None = None
        self._has_graph: bool | None = None
        *schema, table = address.table.split(".")
        sql = self._library.sql
        self._names = {
            "passages": sql.Identifier(*schema, table),
            **{name: sql.Identifier(*schema, f"{table}_{name}") for name in ("words", "facts")},
            **{name: sql.Identifier(f"{table}_{name}") for name in ("by_document", "by_metadata", "by_words", "graph")},
            **{"k1": sql.Literal(K1), "b": sql.Literal(B)},
        }
        self._table = (*schema, table)

    def __repr__(self) -> str:
        return str(self._address)

    @property
    def batch(self) -> int:
        """How many passages go into one transaction."""
        return _BATCH

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    # ---- what is there ----------------------------------------------------------------------------------------------

    def probe(self) -> Vectors | None:
        """What the model made of three sentences; None where there are no tables."""
        if self._probe is None:
            with self._transaction() as asked:
                there = asked.execute("SELECT to_regclass(%s)", [self._quoted("facts")]).fetchone()
                if there is None or there[0] is None:
                    return None
                row = asked.execute(self._sql("SELECT format, probe FROM {facts}")).fetchone()
                if row is None:
                    return None
                told = f"{self} was written in format {row[0]}, this version reads {FORMAT}"
                require(row[0] == FORMAT, f"{told}; fill another table", BadInput)
                self._probe = np.array(row[1], np.float32)
        return self._probe

    def count(self) -> Count:
        """How much it holds."""
        with self._transaction() as asked:
            row = asked.execute(self._sql("SELECT passages, words FROM {facts}")).fetchone()
        return Count(0, 0) if row is None else Count(*row)

    def digests(self, sources: Sequence[str]) -> Mapping[str, str]:
        """The digests of those documents that are there, by source."""
        if self.probe() is None:
            return {}
        names = {uuid.UUID(bytes=key_of(source)): source for source in sources}
        asked = "SELECT DISTINCT document, digest FROM {passages} WHERE document = ANY(%s)"
        with self._transaction() as now:
            return {names[one]: digest for one, digest in now.execute(self._sql(asked), [list(names)])}

    def sample(self, count: int) -> Vectors:
        """The vectors of some passages: keys are digests, so that the first by them are any."""
        asked = self._sql("SELECT embedding FROM {passages} ORDER BY id LIMIT %s")
        with self._transaction() as now:
            found = [row[0].to_numpy() for row in now.execute(asked, [count], binary=True)]
        return np.stack(found).astype(np.float32) if found else np.zeros((0, 0), np.float32)

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """In how many passages each of the words is."""
        asked = self._sql("SELECT word, passages FROM {words} WHERE word = ANY(%s) AND passages > 0")
        with self._transaction() as now:
            known = dict(now.execute(asked, [[word[:_LONGEST_WORD] for word in words]]).fetchall())
        return {word: known[word[:_LONGEST_WORD]] for word in words if word[:_LONGEST_WORD] in known}

    # ---- search -----------------------------------------------------------------------------------------------------

    def nearest(self, vector: Vectors, top: int, where: Sequence[Condition], *, exact: bool | None) -> list[Found]:
        """The `top` passages whose vectors are nearest: through the graph, where there is one, else of all."""
        fits, values = _condition(where)
        wanted, width = np.asarray(vector, np.float32), len(vector)
        with self._transaction() as now:
            graph = not exact and self._graph(now)
            if graph:
                now.execute(f"SET LOCAL hnsw.ef_search = {min(max(_LOOKED_AT, top), 1000)}")
                now.execute("SET LOCAL hnsw.iterative_scan = strict_order")  # a filter leaves as many as are asked for
            near = f"embedding::halfvec({width}) <#> %s::vector::halfvec({width})" if graph else "embedding <#> %s"
            asked = f"{_FOUND} -(embedding <#> %s) FROM {{passages}} WHERE {fits} ORDER BY {near} LIMIT %s"
            rows = now.execute(self._sql(asked), [wanted, *values, wanted, top], binary=True).fetchall()
        found = [Found(*row) for row in rows]
        return sorted(found, key=lambda one: -one.cosine)  # exact again

    def sharing(
        self, asked: Mapping[str, int], count: Count, vector: Vectors | None, top: int, where: Sequence[Condition]
    ) -> list[Found]:
        """The `top` passages by about BM25, of those that have one of the rarest words.

        PostgreSQL's rank of a word that is n times in a passage is (1 + 1/4 + … + 1/n²) / 1.645, out of which n is
        found again to a few hundredths. What is found is scored exactly by who asks.
        """
        rarest = sorted(asked, key=lambda word: asked[word])[:_MOST_WORDS]
        seen = np.cumsum([asked[word] for word in rarest])
        looked_for = rarest[: max(1, int((seen <= _MOST_SHARING).sum()))]
        lexemes = [_lexeme(word) for word in rarest]
        rarities = [rarity(asked[word], count.passages) for word in rarest]
        fits, values = _condition(where)
        cosine = "'NaN'::float8" if vector is None else "-(embedding <#> %s)"
        asked_for = (
            f"{_FOUND} {cosine} FROM {{passages}} WHERE words @@ %s::tsquery AND {fits} ORDER BY {_BM25} LIMIT %s"
        )
        given: list[Any] = [] if vector is None else [np.asarray(vector, np.float32)]
        given += [" | ".join(map(_lexeme, looked_for)), *values]
        given += [count.words / count.passages or 1.0, rarities, lexemes, top]
        with self._transaction() as now:
            return [Found(*row) for row in now.execute(self._sql(asked_for), given, binary=True)]

    # ---- changes ----------------------------------------------------------------------------------------------------

    def create(self, probe: Vectors) -> None:
        """Make the tables, unless they are there."""
        if self.probe() is not None:
            return
        with self._transaction() as now:
            now.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._quoted("facts")])
            row = now.execute("SELECT to_regclass(%s), to_regclass(%s)", [self._quoted(""), self._quoted("facts")])
            there, ours = row.fetchone() or (None, None)
            told = f"the table of {self} was not made by clearhead; name another: ?table=NAME"
            require(there is None or ours is not None, told, BadInput)
            if self._version(now) is None:
                self._extend(now)
            for statement in _TABLES.strip().split(";\n"):
                now.execute(self._sql(statement.rstrip(";"), width=self._library.sql.Literal(probe.shape[1])))
            row = [FORMAT, [[float(number) for number in one] for one in probe]]
            now.execute(self._sql("INSERT INTO {facts} (format, probe) VALUES (%s, %s) ON CONFLICT DO NOTHING"), row)
        self._vectors_known()

    def add(self, entries: Sequence[Entry]) -> None:
        """Store documents in the place of those of the same sources, in one transaction."""
        if not entries or self.probe() is None:
            return
        counted: Counter[str] = Counter()
        total = length = 0
        with self._transaction() as now:
            self._lock_facts(now)
            self._remove(now, [one.document.source for one in entries])
            with now.cursor().copy(self._sql(_COPY)) as copy:
                copy.set_types(_TYPES)
                for entry in entries:
                    source = _text(entry.document.source)
                    metadata = _plain(entry.document.metadata)
                    for number, ((start, end), vector) in enumerate(zip(entry.spans, entry.vectors, strict=True)):
                        text = entry.document.text[start:end]
                        found = Counter(word[:_LONGEST_WORD] for word in words(text))
                        counted.update(found.keys())
                        size = found.total()
                        total, length = total + 1, length + size
                        copy.write_row(
                            [
                                uuid.UUID(bytes=key_of(entry.document.source, number)),
                                uuid.UUID(bytes=key_of(entry.document.source)),
                                *(entry.digest, source, start, end, _text(text), metadata, size),
                                _tsvector(found),
                                np.asarray(vector, np.float32),
                            ]
                        )
            # in one order for all, so that nobody waits for one that waits for him
            known = sorted(counted.items())
            now.execute(self._sql(_MORE), [[word for word, _ in known], [count for _, count in known]])
            more = self._sql("UPDATE {facts} SET passages = passages + %s, words = words + %s")
            now.execute(more, [total, length])

    def delete(self, sources: Sequence[str]) -> int:
        """Remove documents; how many were there."""
        if self.probe() is None:
            return 0
        with self._transaction() as now:
            self._lock_facts(now)
            return self._remove(now, sources)

    def settle(self) -> None:
        """Make the graph, where there are many passages and none yet; then it grows with them."""
        count = self.count().passages
        width = 0 if (probe := self.probe()) is None else probe.shape[1]
        if count <= EXACT_UP_TO or width > _WIDEST:
            return
        made = f"CREATE INDEX {{graph}} ON {{passages}} USING hnsw ((embedding::halfvec({width})) halfvec_ip_ops)"
        for workers in (None, 0):  # several share memory, of which a container may have little
            try:
                with self._transaction() as now:
                    if not self._graph(now, again=True):
                        now.execute("SELECT set_config('maintenance_work_mem', %s, true)", [_MEMORY])
                        if workers is not None:
                            now.execute(f"SET LOCAL max_parallel_maintenance_workers = {workers}")
                        now.execute(self._sql(f"{made} WITH (m = 16, ef_construction = 64)"))
                break
            except _NoRoom as error:
                if workers == 0:
                    raise Unavailable(str(error)) from None
        self._has_graph = None

    def _remove(self, now: Connection[Any], sources: Sequence[str]) -> int:
        keys = [uuid.UUID(bytes=key_of(source)) for source in sources]
        row = now.execute(self._sql(_LESS), [keys]).fetchone()
        passages, length, documents = row[:3] if row else (0, 0, 0)
        now.execute(self._sql("UPDATE {facts} SET passages = passages - %s, words = words - %s"), [passages, length])
        return int(documents)

    def _lock_facts(self, now: Connection[Any]) -> None:
        """One writer at a time; others wait for their turn, batch by batch."""
        if now.execute(self._sql("SELECT 1 FROM {facts} FOR UPDATE")).fetchone() is None:
            raise NotFound(f"the tables of {self} were emptied while they were written to; start again")

    # ---- connections ------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[Connection[Any]]:
        """A connection for one transaction; what goes wrong is said in a sentence that shows no password."""
        try:
            connection, transaction = self._begun()
        except self._library.Error as error:
            self._unavailable(error)
        try:
            with transaction:
                yield connection
        except self._library.Error as error:
            if connection.closed:
                self._unavailable(error)
            self._refuse(error)
        finally:
            if connection.closed or connection.info.transaction_status != 0:
                connection.close()
            else:
                with self._lock:
                    self._idle.append(connection)

    def _begun(self) -> tuple[Connection[Any], ExitStack]:
        """An idle connection that is still one, or a new one, and the transaction that was begun there."""
        while True:
            with self._lock:
                held = self._idle.pop() if self._idle else None
            connection = held or self._connected()
            try:
                with ExitStack() as begun:
                    begun.enter_context(connection.transaction())
                    return connection, begun.pop_all()
            except self._library.Error:
                connection.close()
                if held is None:  # else the server was restarted, or has closed it
                    raise

    def _connected(self) -> Connection[Any]:
        made = self._library.connect(self._conninfo(), autocommit=True, connect_timeout=_WAIT)
        if self._version(made) is not None:
            self._vectors.register_vector(made)
        made.adapters.register_dumper(_Lexemes, self._dumper)
        return made

    def _conninfo(self) -> str:
        """The URL as libpq reads it: without the option that is ours."""
        # by hand, since what Python puts together again lacks the slashes of postgresql:///name
        place, _, options = self._address.url.partition("?")
        rest = [one for one in options.split("&") if one and not one.startswith("table=")]
        url = f"{place}?{'&'.join(rest)}" if rest else place
        try:
            self._library.conninfo.conninfo_to_dict(url)
        except self._library.Error:  # whose words quote what they are about
            raise BadInput(f"{self} is no URL that PostgreSQL's library reads; check its parts and options") from None
        return url

    def _version(self, now: Connection[Any]) -> str | None:
        row = now.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        return None if row is None else str(row[0])

    def _extend(self, now: Connection[Any]) -> None:
        try:
            with now.transaction():
                now.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except self._library.errors.InsufficientPrivilege:
            told = f"the database of {self} has no extension vector, and this user may not create it"
            raise BadInput(f"{told}; let an administrator run there: CREATE EXTENSION vector") from None
        except self._library.Error as error:
            told = f"the server of {self} has no pgvector ({self._said(error)})"
            raise NotFound(f"{told}; install pgvector 0.8 or newer there") from None
        found = self._version(now) or "0"
        new = tuple(int(part) for part in found.split(".")[:2]) >= (0, 8)
        require(new, f"the database of {self} has pgvector {found}; 0.8 or newer is needed", BadInput)

    def _vectors_known(self) -> None:
        """Connections that were opened before there was an extension do not know its types."""
        self.close()

    def _graph(self, now: Connection[Any], *, again: bool = False) -> bool:
        if self._has_graph is None or again:
            row = now.execute("SELECT to_regclass(%s)", [self._quoted("graph")]).fetchone()
            self._has_graph = row is not None and row[0] is not None
        return self._has_graph

    def _unavailable(self, error: Exception) -> NoReturn:
        told = f"{self} cannot be reached ({self._said(error)})"
        raise Unavailable(f"{told}; check that the server runs, and name and password") from None

    def _refuse(self, error: Exception) -> NoReturn:
        errors = self._library.errors
        if isinstance(error, errors.UndefinedTable):
            raise NotFound(
                f"{self} holds no passages (any more); fill it first: clearhead index FILES --store URL"
            ) from None
        if isinstance(error, errors.InsufficientPrivilege):
            raise BadInput(f"{self}: {self._said(error)}; ask for the right, or name another user") from None
        if isinstance(error, errors.DataException) and "dimensions" in str(error):
            raise BadInput(
                f"{self} holds vectors of another width ({self._said(error)}); name the model that made them"
            ) from None
        kind = _NoRoom if isinstance(error, errors.DiskFull) else Unavailable
        raise kind(f"{self} did not do it ({self._said(error)})") from None

    def _said(self, error: Exception) -> str:
        """What the server said, in one line, without what is secret."""
        text = str(error).partition("\n")[0]
        for secret in filter(None, self._secrets):
            text = text.replace(secret, "…")
        return reason(ValueError(text))

    def _sql(self, statement: str, **more: Any) -> Composed:
        return self._library.sql.SQL(statement).format(**{**self._names, **more})

    def _quoted(self, name: str) -> str:
        """The name of a table or index as to_regclass takes it."""
        *schema, table = self._table
        return ".".join(f'"{part}"' for part in (*schema, f"{table}_{name}" if name else table))


def _condition(where: Sequence[Condition]) -> tuple[str, list[Any]]:
    """A filter as SQL, and the values that are bound in it."""
    parts: list[str] = ["true"]
    values: list[Any] = []
    for one in where:
        if one.operator == "=":
            parts.append("(" + " OR ".join(["metadata @> %s::jsonb"] * len(one.values) or ["false"]) + ")")
            values += [_json({one.key: value}) for value in one.values]
            continue
        (value,) = one.values
        kind = kind_of(value)
        cast = '(metadata ->> %s) COLLATE "C"' if kind == "string" else "(metadata ->> %s)::numeric"
        if kind == "boolean":
            cast = "(metadata ->> %s)::boolean"
        # the kind comes first, and CASE keeps that order: what is no number cannot be made one
        parts.append(f"CASE WHEN jsonb_typeof(metadata -> %s) = %s THEN {cast} {one.operator} %s ELSE false END")
        values += [_text(one.key), kind, _text(one.key), _text(value) if isinstance(value, str) else value]
    return " AND ".join(parts), values


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(_plain(value))


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return {_text(key): _text(one) if isinstance(one, str) else one for key, one in value.items()}


def _text(text: str) -> str:
    """Text as PostgreSQL takes it, which has no U+0000; offsets stay."""
    return text.replace("\0", "\ufffd")


def _lexeme(word: str) -> str:
    """A word as tsvector and tsquery read it: quoted, whatever it holds."""
    return "'" + word[:_LONGEST_WORD].replace("\\", "\\\\").replace("'", "''") + "'"


class _Lexemes(bytes):
    """The words of a passage in the form that tsvector has in binary COPY."""


def _lexeme_dumper(library: Any) -> type:
    class Dumper(library.adapt.Dumper):  # type: ignore[misc]
        format = library.pq.Format.BINARY
        oid = 3614  # tsvector's in every PostgreSQL

        def dump(self, obj: _Lexemes) -> bytes:
            return bytes(obj)

    return Dumper


def _tsvector(counts: Mapping[str, int]) -> _Lexemes:
    """Words and how often each is there: as many positions are kept as it has, 1, 2, …; where they are, nobody asks."""
    parts = [struct.pack("!i", len(counts))]
    for word, count in counts.items():
        times = min(count, _MOST_POSITIONS)
        parts.append(word.encode() + struct.pack(f"!xH{times}H", times, *range(1, times + 1)))
    return _Lexemes(b"".join(parts))
