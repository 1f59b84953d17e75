"""An index whose passages lie in a store: a database, or a folder that is added to. Searched as `Index` is."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack, overload

import numpy as np

from clearhead.data.documents import Document
from clearhead.errors import BadInput, NotFound, keywords, require, valid_text
from clearhead.io import Progress, Record
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.results import Hit
from clearhead.pipelines.runner import listed
from clearhead.pipelines.search import bm25
from clearhead.pipelines.search.index import Index, as_document, embedder, made_otherwise
from clearhead.pipelines.search.passages import LONGEST, Span, cut_passages
from clearhead.pipelines.search.ranking import best, relevance
from clearhead.pipelines.search.searching import CANDIDATES, Method, SearchOptions, searched
from clearhead.pipelines.search.store import Count, Entry, Found, Store, document_digest, is_url, key_of, open_store
from clearhead.pipelines.search.vectors import Background, Embed, probe_of, same_model
from clearhead.pipelines.search.where import Condition, Where, check_key, check_value

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

_SAMPLE = 2_000  # passages by which the usual cosine is known, which are fetched once
_MOVED = 0.1  # by how much the number of passages may change until others are fetched
_LOOKED_UP = 200  # documents whose digests are asked for at once


@dataclass(frozen=True, slots=True)
class Added(Record):
    """What an ingestion did: documents that were new or had changed, their passages, and documents left as they were.

    `repeated` counts those whose source had come before among the same documents: the first of them is kept.
    """

    documents: int
    passages: int
    unchanged: int
    repeated: int


@keywords
class StoredIndex:
    """Documents in a store, the model that makes their vectors, and the same `search` as an `Index` has.

    Searches may run in many threads at once, beside one that adds.
    """

    def __init__(self, store: Store, model: Model | None = None, *, skill: str | Path | None = None) -> None:
        self.store = store
        self._model = model
        self._embed: Embed | None = None if model is None else embedder(model, skill)
        self._skill = skill
        self._background: Background | None = None
        self._lock = threading.Lock()
        self._check(store.probe())

    @classmethod
    def open(cls, name: str | Path, model: Model | None = None, *, skill: str | Path | None = None) -> Self:
        """Open a store by its URL, or a folder: postgresql://user@host/database?table=notes, lancedb:///folder.

        It need not be there yet: what is added first makes it. Vectors of another model, or of another skill, are
        refused. Without a model it is searched by words.
        """
        store = open_store(str(name))
        try:
            return cls(store, model, skill=skill)
        except BaseException:
            store.close()
            raise

    def _check(self, probe: Vectors | None) -> None:
        """Refuse vectors of another model, or of another skill."""
        if probe is None or self._model is None or self._embed is None:
            return
        if not same_model(probe, probe_of(self._embed)):
            raise BadInput(made_otherwise(f"the index in {self.store}", probe, self._model, self._skill))

    @property
    def model(self) -> Model | None:
        """The model that makes the vectors, and reranks if it has a skill for that."""
        return self._model

    def __len__(self) -> int:
        return self.store.count().passages

    def __repr__(self) -> str:
        return f"StoredIndex({self.store})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files and connections."""
        self.store.close()

    # ---- documents in and out ---------------------------------------------------------------------------------------

    def add(
        self,
        documents: Iterable[str | Document],
        *,
        max_characters: int = LONGEST,
        progress: Progress | None = None,
    ) -> Added:
        """Store documents by their sources: new ones, and those that have changed in the place of what they were.

        One that is there as it is costs no more than looking it up. Each batch is stored whole or not at all, so that
        an ingestion that was ended goes on where it was when it is started again. `progress` is told of passages
        embedded.
        """
        model = self._model
        if model is None or self._embed is None:
            raise BadInput("documents are stored with their vectors; open the store with the model that makes them")
        embed = embedder(model, self._skill, progress)
        seen: set[bytes] = set()
        done = unchanged = repeated = passages = 0
        waiting: list[tuple[Document, list[Span], str]] = []
        given = (as_document(one, number) for number, one in enumerate(listed(documents)))
        while some := list(islice(given, _LOOKED_UP)):
            fresh = [one for one in map(_storable, some) if _first(one.source, seen)]
            repeated += len(some) - len(fresh)
            stored = self.store.digests([one.source for one in fresh])
            for one in fresh:
                spans = cut_passages(one.text, max_characters)
                digest = document_digest(one, spans)
                if stored.get(one.source) == digest or (not spans and one.source not in stored):
                    unchanged += 1
                    continue
                waiting.append((one, spans, digest))
                done, passages = done + 1, passages + len(spans)
                if sum(len(held[1]) for held in waiting) >= self.store.batch:
                    self._flush(waiting, embed)
                    waiting = []
        if waiting:
            self._flush(waiting, embed)
        if self.store.probe() is None:
            raise BadInput("there is no text to store; give documents with some words in them")
        self.store.settle()
        return Added(done, passages, unchanged, repeated)

    def _flush(self, waiting: Sequence[tuple[Document, list[Span], str]], embed: Embed) -> None:
        texts = [one.text[start:end] for one, spans, _ in waiting for start, end in spans]
        vectors = embed(texts) if texts else np.zeros((0, 0), np.float32)
        if texts and self.store.probe() is None:
            own = probe_of(embed)
            self.store.create(own)
            self._check(self.store.probe())  # another may have come first
        ends = np.cumsum([len(spans) for _, spans, _ in waiting])[:-1]
        parts = zip(waiting, np.split(vectors, ends), strict=True)
        self.store.add([Entry(one, digest, spans, own) for (one, spans, digest), own in parts])

    def delete(self, sources: str | Iterable[str]) -> int:
        """Remove documents by their sources; how many were there."""
        return self.store.delete([valid_text(one) for one in ([sources] if isinstance(sources, str) else sources)])

    # ---- search -----------------------------------------------------------------------------------------------------

    @overload
    def search(self, queries: str, **options: Unpack[SearchOptions]) -> list[Hit]: ...  # type: ignore[overload-overlap]
    @overload
    def search(self, queries: Sequence[str], **options: Unpack[SearchOptions]) -> list[list[Hit]]: ...

    def search(
        self,
        queries: str | Sequence[str],
        *,
        top_k: int = 10,
        method: Method | None = None,
        min_score: float | None = None,
        rerank: bool | None = None,
        rerank_with: Model | None = None,
        approximate: bool | None = None,
        where: Where | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """The `top_k` passages for a query, or for each of many; the options are those of `Index.search`.

        Hybrid scores the union of the passages that are nearest and of those that share the rarest words.
        """
        found = searched(
            self,
            list(listed(queries)),
            top_k=top_k,
            method=method,
            min_score=min_score,
            rerank=rerank,
            rerank_with=rerank_with,
            approximate=approximate,
            where=where,
        )
        return found[0] if isinstance(queries, str) else found

    def usual_method(self) -> Method:
        """Hybrid where there is a model, else bm25."""
        return "bm25" if self._embed is None else "hybrid"

    def rank(
        self, queries: list[str], top: int, method: Method, approximate: bool | None, where: Sequence[Condition]
    ) -> list[list[Hit]]:
        """The `top` passages of each query, the best first: the search itself, without what is round it."""
        count = self.store.count()
        if not count.passages:
            return [[] for _ in queries]
        vectors: Sequence[Vectors] | None = None
        if method != "bm25":
            if self._embed is None:
                raise NotFound("this store was opened without a model; name the model, or search with method='bm25'")
            vectors = list(self._embed(queries))
        exact = None if approximate is None else not approximate
        if method == "vectors" and vectors is not None:
            return [
                [_hit(one, one.cosine) for one in self.store.nearest(vector, top, where, exact=exact)]
                for vector in vectors
            ]
        depth = max(top, CANDIDATES)
        found: list[list[Hit]] = []
        for place, query in enumerate(queries):
            vector = None if vectors is None else vectors[place]
            near = [] if vector is None else self.store.nearest(vector, depth, where, exact=exact)
            found.append(self._scored(query, vector, near, count, depth, where)[:top])
        return found

    def _scored(
        self,
        query: str,
        vector: Vectors | None,
        near: list[Found],
        count: Count,
        depth: int,
        where: Sequence[Condition],
    ) -> list[Hit]:
        """All candidates of a query, the best first; without a vector by BM25 alone."""
        asked = bm25.words(query)
        known = self.store.frequencies(list(dict.fromkeys(asked)))
        rarities = {word: bm25.rarity(known.get(word, 0), count.passages) for word in asked}
        there = {word: known[word] for word in asked if known.get(word)}
        shared = self.store.sharing(there, count, vector, depth, where) if there else []
        some = list({(one.source, one.start, one.end): one for one in (*near, *shared)}.values())
        mean_length = count.words / count.passages
        scores = np.array([bm25.score(asked, rarities, one.text, mean_length) for one in some], np.float32)
        if vector is not None:
            shares = scores / np.float32(sum(rarities[word] for word in asked) or 1)
            cosines = np.array([one.cosine for one in some], np.float32)
            background = self._usual(count.passages)
            scores = relevance(shares, background.nearness(vector, cosines), background.weight)
        ranking = best(scores, len(some))
        hits = [_hit(some[place], float(score)) for place, score in zip(*ranking, strict=True)]
        return hits if vector is not None else [hit for hit in hits if hit.score > 0]

    def _usual(self, passages: int) -> Background:
        """Some of the passages, fetched again where many came or went."""
        with self._lock:
            held = self._background
            few = passages <= _SAMPLE
            if held is None or abs(held.passages - passages) > (0 if few else _MOVED * held.passages):
                held = Background(self.store.sample(_SAMPLE), passages)
                require(len(held.vectors) > 0, "the store was emptied while it was searched; ask again", NotFound)
                self._background = held
        return Background(held.vectors, passages) if held.passages != passages else held


AnyIndex = Index | StoredIndex


def open_index(name: str | Path, model: Model | None = None, *, skill: str | Path | None = None) -> AnyIndex:
    """What can be searched under a name: a saved index in a folder, or the URL of a store."""
    return StoredIndex.open(name, model, skill=skill) if is_url(str(name)) else Index.load(name, model, skill=skill)


def _hit(one: Found, score: float) -> Hit:
    return Hit(one.text, one.source, one.start, one.end, score, one.metadata)


def _first(source: str, seen: set[bytes]) -> bool:
    """Whether no document before had this source."""
    key = key_of(source)
    if key in seen:
        return False
    seen.add(key)
    return True


def _storable(document: Document) -> Document:
    """The document with text and metadata that any store takes."""
    known = {check_key(key): check_value(key, value) for key, value in document.metadata.items()}
    return Document(valid_text(document.text), valid_text(document.source), known)
