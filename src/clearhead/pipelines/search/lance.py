"""The store in LanceDB: one table in a folder, or in an object store, of which each change is a new version."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import numpy as np

from clearhead.errors import BadInput, ClearheadError, NotFound, Unavailable, reason, require
from clearhead.io import claimed, optional
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.bm25 import words
from clearhead.pipelines.search.store import EXACT_UP_TO, FORMAT, Address, Count, Entry, Found, key_of
from clearhead.pipelines.search.where import Condition, Metadata, Scalar, kind_of

_BATCH = 5_000  # passages in a transaction, which is a file
_FACTS = b"clearhead"
_KINDS = {"string": "utf8", "number": "float64", "boolean": "bool_"}  # of Arrow
_FOUND = ("text", "source", "start", "stop", "metadata")
_LOOKED_AT = 20  # lists of vectors that are compared, of about √P
_REFINED = 10  # times as many are compared again exactly
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


class LanceStore:
    """The table is read as it is at the moment of each search."""

    def __init__(self, address: Address) -> None:
        self._library = optional("lancedb", "a store in LanceDB", "lancedb")
        self._arrow = optional("pyarrow", "a store in LanceDB", "lancedb")
        self._expr = optional("lancedb.expr", "a store in LanceDB", "lancedb")
        self._index = optional("lancedb.index", "a store in LanceDB", "lancedb")
        self._query = optional("lancedb.query", "a store in LanceDB", "lancedb")
        self._address = address
        require(
            "." not in address.table, f"{address.table!r} is no name of a LanceDB table; leave the dot out", BadInput
        )
        self._opened: Any = None
        self._lengths: tuple[int, int] | None = None  # version, words
        self._place = _place(address)
        with self._explained():
            self._database = self._library.connect(
                self._place,
                read_consistency_interval=timedelta(0),
                storage_options=dict(address.options) or None,
            )

    def __repr__(self) -> str:
        return str(self._address)

    @property
    def batch(self) -> int:
        """How many passages go into one transaction."""
        return _BATCH

    def close(self) -> None:
        """Let go of the table."""
        self._opened = None

    # ---- what is there ----------------------------------------------------------------------------------------------

    def probe(self) -> Vectors | None:
        """What the model made of three sentences; None where there is no table."""
        table = self._table()
        if table is None:
            return None
        with self._explained():
            held = (table.schema.metadata or {}).get(_FACTS)
        if held is None:
            raise BadInput(f"the table of {self} was not made by clearhead; name another: ?table=NAME")
        facts = json.loads(held)
        told = f"{self} was written in format {facts['format']}, this version reads {FORMAT}"
        require(facts["format"] == FORMAT, f"{told}; fill another table", BadInput)
        return np.array(facts["probe"], np.float32)

    def count(self) -> Count:
        """How much it holds."""
        table = self._there()
        with self._explained():
            version = table.version
            if self._lengths is None or self._lengths[0] != version:
                lengths = table.search().select(["length"]).to_arrow()["length"]
                self._lengths = version, int(lengths.to_numpy().sum())
            return Count(table.count_rows(), self._lengths[1])

    def digests(self, sources: Sequence[str]) -> Mapping[str, str]:
        """The digests of those documents that are there, by source."""
        table = self._table()
        if table is None:
            return {}
        with self._explained():
            some = table.search().where(self._of(sources)).select(["source", "digest"]).to_arrow()
        return dict(zip(some["source"].to_pylist(), some["digest"].to_pylist(), strict=True))

    def sample(self, count: int) -> Vectors:
        """The vectors of some passages: keys are digests, so that the first by them are any."""
        table = self._there()
        with self._explained():
            total = table.count_rows()
            asked = table.search()
            if total > count:
                share = min(1.0, 1.2 * count / total)
                asked = asked.where(self._expr.col("id") < self._expr.lit(f"{int(share * 2**64):016x}"))
            some = asked.select(["embedding"]).limit(count).to_arrow()["embedding"]
        return np.stack(some.to_numpy()).astype(np.float32) if len(some) else np.zeros((0, 0), np.float32)

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """In how many passages each of the words is."""
        table = self._there()
        with self._explained():
            found = {word: table.count_rows(f"array_has(words, {_literal(word)})") for word in words}
        return {word: count for word, count in found.items() if count}

    # ---- search -----------------------------------------------------------------------------------------------------

    def nearest(self, vector: Vectors, top: int, where: Sequence[Condition], *, exact: bool | None) -> list[Found]:
        """The `top` passages whose vectors are nearest."""
        wanted = np.asarray(vector, np.float32)
        table = self._there()
        if (fits := self._condition(table, where)) is False:
            return []
        with self._explained():
            asked = table.search(wanted, vector_column_name="embedding").distance_type("dot").limit(top)
            asked = asked.bypass_vector_index() if exact else asked.nprobes(_LOOKED_AT).refine_factor(_REFINED)
            if fits is not None:
                asked = asked.where(fits, prefilter=True)
            rows = asked.select([*_FOUND, "embedding", "_distance"]).to_list()
        return sorted(_found(rows, wanted), key=lambda one: -one.cosine)

    def sharing(
        self, asked: Mapping[str, int], count: Count, vector: Vectors | None, top: int, where: Sequence[Condition]
    ) -> list[Found]:
        """The `top` passages by Lance's own BM25 over our words."""
        table = self._there()
        if (fits := self._condition(table, where)) is False:
            return []
        with self._explained():
            found = table.search(self._query.MatchQuery(" ".join(asked), "terms")).limit(top)
            if fits is not None:
                found = found.where(fits, prefilter=True)
            rows = found.select([*_FOUND, "embedding", "_score"]).to_list()
        return _found(rows, vector)

    # ---- changes ----------------------------------------------------------------------------------------------------

    def create(self, probe: Vectors) -> None:
        """Make the table, unless it is there."""
        if self._table() is not None:
            return
        arrow = self._arrow
        texts = {name: arrow.utf8() for name in ("id", "source", "digest", "text", "metadata", "terms")}
        numbers = {name: arrow.int32() for name in ("start", "stop", "length")}
        lists = {"words": arrow.list_(arrow.utf8()), "embedding": arrow.list_(arrow.float32(), probe.shape[1])}
        facts = json.dumps({"format": FORMAT, "probe": probe.astype(float).tolist()})
        schema = arrow.schema(list({**texts, **numbers, **lists}.items()), metadata={_FACTS: facts.encode()})
        with self._writing():
            table = self._database.create_table(self._address.table, schema=schema, exist_ok=True)
            if not table.list_indices():
                self._make(table, "terms", self._words_index())

    def add(self, entries: Sequence[Entry]) -> None:
        """Store documents in the place of those of the same sources, as one version of the table."""
        table = self._table()
        if not entries or table is None:
            return
        rows = [row for entry in entries for row in _rows(entry)]
        with self._writing():
            known = {_column(key, value) for entry in entries for key, value in entry.document.metadata.items()}
            missing = sorted(known - set(table.schema.names))
            if missing:
                kinds = [(name, getattr(self._arrow, _KINDS[name.split("_", 2)[1]])()) for name in missing]
                table.add_columns(self._arrow.schema(kinds))
            batch = self._arrow.Table.from_pylist(rows, schema=table.schema.remove_metadata())
            gone = self._of([entry.document.source for entry in entries])
            merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.when_not_matched_by_source_delete(gone).execute(batch)

    def delete(self, sources: Sequence[str]) -> int:
        """Remove documents; how many were there."""
        there = self.digests(sources)
        if there:
            with self._writing():
                self._there().delete(self._of(list(there)))
        return len(there)

    def settle(self) -> None:
        """Join small files, take what is new into the indexes, and make those that are missing."""
        table = self._there()
        with self._writing():
            made = {column for one in table.list_indices() for column in one.columns}
            rows = table.count_rows()
            for column, config in {"id": self._index.BTree(), "source": self._index.BTree()}.items():
                if rows and column not in made:
                    self._make(table, column, config)
            if rows and "words" not in made:
                self._make(table, "words", self._index.LabelList())
            if rows > EXACT_UP_TO and "embedding" not in made:
                self._make(table, "embedding", self._index.IvfHnswSq(distance_type="dot", m=16, ef_construction=100))
            table.optimize()

    def _make(self, table: Any, column: str, config: Any) -> None:
        table.create_index(column, config=config)

    def _words_index(self) -> Any:
        # words are cut and folded by us, so that all stores agree on them
        return self._index.FTS(
            base_tokenizer="whitespace",
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
            max_token_length=None,
            with_position=False,
        )

    # ---- tables and filters -----------------------------------------------------------------------------------------

    def _table(self) -> Any:
        if self._opened is None:
            with self._explained():
                if self._address.table not in self._database.list_tables().tables:
                    return None
                self._opened = self._database.open_table(self._address.table)
        return self._opened

    def _there(self) -> Any:
        table = self._table()
        if table is None:
            raise NotFound(f"{self} holds no passages yet; fill it first: clearhead index FILES --store URL")
        return table

    def _of(self, sources: Sequence[str]) -> Any:
        return self._expr.col("source").isin([self._expr.lit(source) for source in sources])

    def _condition(self, table: Any, where: Sequence[Condition]) -> Any:
        """A filter as an expression; None where there is none, False where nothing can fit."""
        with self._explained():
            known = set(table.schema.names)
        parts = []
        for one in where:
            several = [self._compared(one, value) for value in one.values if _column(one.key, value) in known]
            if not several:
                return False
            parts.append(reduce(lambda left, right: left | right, several))
        return reduce(lambda left, right: left & right, parts) if parts else None

    def _compared(self, condition: Condition, value: Scalar) -> Any:
        column = self._expr.col(_column(condition.key, value))
        given = self._expr.lit(float(value) if kind_of(value) == "number" else value)
        names = {"=": "eq", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
        return getattr(column, names[condition.operator])(given)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time to a folder; of an object store, the one who uses it sees to that."""
        with claimed(Path(self._place)) if "://" not in self._place else nullcontext(), self._explained():
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what goes wrong in a sentence that shows no secret."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                yield
        except ClearheadError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            self._refuse(error)

    def _refuse(self, error: BaseException) -> NoReturn:
        self._opened = None
        text = str(error).partition("\n")[0]
        for secret in filter(None, self._address.options.values()):
            text = text.replace(secret, "…")
        if "not found" in text.lower() and "table" in text.lower():
            raise NotFound(
                f"{self} holds no passages (any more); fill it first: clearhead index FILES --store URL"
            ) from None
        raise Unavailable(f"{self} cannot be read or written ({reason(ValueError(text))})") from None


def _place(address: Address) -> str:
    """What LanceDB calls the place: a path, or s3://bucket/folder."""
    parts = urlsplit(address.url)
    _, _, store = address.scheme.partition("+")
    if store:
        return f"{store}://{parts.netloc}{parts.path}"
    require(bool(parts.netloc or parts.path), f"{address} names no folder; write lancedb:///FOLDER", BadInput)
    return unquote(f"{parts.netloc}{parts.path}")


def _rows(entry: Entry) -> Iterator[dict[str, Any]]:
    document = entry.document
    known = {_column(key, value): value for key, value in document.metadata.items()}
    for number, ((start, end), vector) in enumerate(zip(entry.spans, entry.vectors, strict=True)):
        text = document.text[start:end]
        found = words(text)
        yield {
            "id": key_of(document.source, number).hex(),
            **{"source": document.source, "digest": entry.digest, "text": text, "start": start, "stop": end},
            **{"metadata": json.dumps(dict(document.metadata)), "length": len(found), "terms": " ".join(found)},
            "words": sorted(set(found)),
            "embedding": np.asarray(vector, np.float32),
            **known,
        }


def _found(rows: Sequence[dict[str, Any]], vector: Vectors | None) -> list[Found]:
    found = []
    for row in rows:
        metadata: Metadata = json.loads(row["metadata"])
        cosine = float("nan") if vector is None else float(np.asarray(row["embedding"], np.float32) @ vector)
        found.append(Found(row["text"], row["source"], row["start"], row["stop"], metadata, cosine))
    return found


def _column(key: str, value: Scalar) -> str:
    """The column of a key and of the kind of its values; of small letters and digits, whatever the key holds."""
    plain = "".join(one if one in _PLAIN else f"_{ord(one):x}_" for one in key)
    return f"known_{kind_of(value)}_{plain}"


def _literal(word: str) -> str:
    """A word in a filter of Lance's, which binds no values: words have no quotes, and would lose their meaning here."""
    return "'" + word.replace("'", "''") + "'"
