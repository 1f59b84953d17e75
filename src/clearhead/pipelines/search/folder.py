"""The store that needs no server: the folder of a saved `Index`, added to, and read again when it has changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, NotFound, require
from clearhead.io import claimed
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.search.bm25 import Bm25
from clearhead.pipelines.search.index import Index, read_facts, read_index
from clearhead.pipelines.search.ranking import Ranking
from clearhead.pipelines.search.store import Count, Entry, Found, document_digest
from clearhead.pipelines.search.vectors import VectorSearch, same_model
from clearhead.pipelines.search.where import Condition

_BATCH = 2_000  # passages in a transaction, at least: the whole folder is written each time
_SHARE = 4  # and at least a quarter of what is there, so that all writing together is a few times the last


class FolderStore:
    """All of it is in memory; what is added is written to a new folder, which takes the old one's place."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._held: Index | None = None
        self._facts: bytes | None = None  # by which another index in the folder would be known
        self._lock = Lock()
        self._known: tuple[Index, dict[str, str]] | None = None  # an index, and its digests by source
        self._probe: Vectors | None = None  # of the model that vectors come from, those stored and those given

    def __repr__(self) -> str:
        return str(self._folder)

    @property
    def batch(self) -> int:
        """How many passages go into one transaction."""
        return max(_BATCH, 0 if self._held is None else len(self._held) // _SHARE)

    def close(self) -> None:
        """Let go of what is in memory."""
        with self._lock:
            self._held = self._facts = self._known = None

    # ---- what is there ----------------------------------------------------------------------------------------------

    def probe(self) -> Vectors | None:
        """What the model made of three sentences; None where no index is, and none is being made."""
        index = self._index()
        if index is not None and self._probe is None:
            if index.vectors is None:
                raise BadInput(
                    f"{self._folder} was built without a model; build it again with one, or choose another folder"
                )
            self._probe = index.vectors.probe
        return self._probe

    def count(self) -> Count:
        """How much it holds."""
        index = self._there()
        return Count(len(index), int(index.words.lengths.sum()))

    def digests(self, sources: Sequence[str]) -> Mapping[str, str]:
        """The digests of those documents that are there, by source."""
        index = self._index()
        if index is None:
            return {}
        held, known = self._known or (None, {})
        if held is not index:
            starts = np.searchsorted(index.spans[:, 0], np.arange(len(index.documents) + 1))
            cuts = (index.spans[starts[n] : starts[n + 1], 1:].tolist() for n in range(len(index.documents)))
            known = {one.source: document_digest(one, spans) for one, spans in zip(index.documents, cuts, strict=True)}
            self._known = index, known
        return {source: known[source] for source in sources if source in known}

    def sample(self, count: int) -> Vectors:
        """The vectors of some passages, evenly chosen."""
        vectors = self._vectors(self._there()).vectors
        return vectors[:: -(-len(vectors) // count)]

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """In how many passages each of the words is."""
        held = self._there().words
        terms = {word: held.vocabulary[word] for word in words if word in held.vocabulary}
        return {word: int(held.starts[term + 1] - held.starts[term]) for word, term in terms.items()}

    # ---- search -----------------------------------------------------------------------------------------------------

    def nearest(self, vector: Vectors, top: int, where: Sequence[Condition], *, exact: bool | None) -> list[Found]:
        """The `top` passages whose vectors are nearest."""
        index = self._there()
        approximate = None if exact is None else not exact
        held = self._vectors(index)
        found = held.nearest(vector[None], top, approximate=approximate, among=index.places(where))
        return _found(index, next(iter(found)), held, vector)

    def sharing(
        self, asked: Mapping[str, int], count: Count, vector: Vectors | None, top: int, where: Sequence[Condition]
    ) -> list[Found]:
        """The `top` passages by BM25."""
        index = self._there()
        (ranking,) = index.words.rank([" ".join(asked)], top, index.places(where))
        return _found(index, ranking, None if vector is None else self._vectors(index), vector)

    # ---- changes ----------------------------------------------------------------------------------------------------

    def create(self, probe: Vectors) -> None:
        """What is added first makes the folder; until then the fingerprint is kept here."""
        self._probe = probe

    def add(self, entries: Sequence[Entry]) -> None:
        """Store documents in the place of those of the same sources."""
        self._change({one.document.source for one in entries}, entries)

    def delete(self, sources: Sequence[str]) -> int:
        """Remove documents; how many were there."""
        wanted, held = set(sources), self._index()
        if held is None or not any(one.source in wanted for one in held.documents):
            return 0
        return self._change(wanted)

    def settle(self) -> None:
        """Nothing: the graph is saved with the rest."""

    def _change(self, sources: set[str], entries: Sequence[Entry] = ()) -> int:
        """Put entries in the place of the documents of these sources; how many of these were there."""
        with claimed(self._folder):
            held = self._index()
            vectors = None if held is None else self._vectors(held)
            index = _without_and_with(held, vectors, sources, entries, self._probe)
            index.save(self._folder, overwrite=True)
            with self._lock, read_facts(self._folder) as facts:
                self._held, self._facts = index, facts.read()
        return 0 if held is None else len({one.source for one in held.documents} & sources)

    # ---- what is in memory ------------------------------------------------------------------------------------------

    def _there(self) -> Index:
        index = self._index()
        if index is None:
            raise NotFound(f"{self._folder} holds no index yet; fill it first: clearhead index FILES --store FOLDER")
        return index

    def _index(self) -> Index | None:
        """The index as it is on disk; None where there is none."""
        with self._lock:
            try:
                facts = read_facts(self._folder)
            except NotFound:
                self._held = self._facts = None
                return None
            with facts:
                same = facts.read() == self._facts
            if not same:
                self._held, self._facts = read_index(self._folder)
            return self._held

    def _vectors(self, index: Index) -> VectorSearch:
        """Vectors of the model that the folder was opened with; another may have taken its place since."""
        if index.vectors is None:
            raise BadInput("this index was built without a model; build it again with one")
        same = self._probe is None or same_model(index.vectors.probe, self._probe)
        require(same, f"{self._folder} was built again with another model; open it again, with that model", BadInput)
        return index.vectors


def _found(index: Index, ranking: Ranking, held: VectorSearch | None, vector: Vectors | None) -> list[Found]:
    places = ranking.places
    cosines = np.full(len(places), np.nan) if held is None or vector is None else held.vectors[places] @ vector
    found = []
    for place, cosine in zip(places, cosines, strict=True):
        number, start, end = index.spans[place].tolist()
        one = index.documents[number]
        found.append(Found(one.text[start:end], one.source, start, end, one.metadata, float(cosine)))
    return found


def _without_and_with(
    held: Index | None,
    before: VectorSearch | None,
    sources: set[str],
    entries: Sequence[Entry],
    probe: Vectors | None,
) -> Index:
    """The index without the documents of these sources, and with those of the entries behind the others."""
    documents = [] if held is None else [one for one in held.documents if one.source not in sources]
    new = [one for one in entries if one.spans]
    rows = [(len(documents) + number, *span) for number, one in enumerate(new) for span in one.spans]
    added = np.array(rows, np.int64).reshape(-1, 3)
    fresh = [one.vectors for one in new]
    if held is None or before is None:
        require(bool(fresh) and probe is not None, "there is no text to store; give documents with words", BadInput)
        assert probe is not None  # noqa: S101
        spans, vectors = added, VectorSearch(np.concatenate(fresh), probe, None)
    else:
        numbers = np.cumsum([one.source not in sources for one in held.documents]) - 1
        stays = np.array([one.source not in sources for one in held.documents], bool)[held.spans[:, 0]]
        kept = held.spans[stays]
        kept = np.column_stack([numbers[kept[:, 0]], kept[:, 1:]]) if len(kept) else kept
        spans, vectors = np.concatenate([kept, added]), _changed(before, stays, fresh)
    everything = (*documents, *(one.document for one in new))
    texts = (everything[number].text[start:end] for number, start, end in spans.tolist())
    return Index(everything, spans, Bm25.build(texts), vectors)


def _changed(held: VectorSearch, stays: NDArray[np.bool_], fresh: Sequence[Vectors]) -> VectorSearch:
    """The vectors that stay and new ones behind them; the graph is led on, since to make it takes far longer."""
    vectors = np.concatenate([held.vectors[stays], *fresh]).astype(held.vectors.dtype)
    if held.graph is None:
        return replace(held, vectors=vectors, keys=None)
    keys = np.arange(len(held.vectors)) if held.keys is None else held.keys
    new = 1 + max(keys, default=-1) + np.arange(len(vectors) - int(stays.sum()))
    graph = held.graph.changed(keys[~stays], new, vectors[len(vectors) - len(new) :])
    return replace(held, vectors=vectors, graph=graph, keys=np.concatenate([keys[stays], new]))
