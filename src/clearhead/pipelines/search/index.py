"""An index over documents: built once, saved as a folder, searched by words, by meaning, or by both."""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.documents import Document
from clearhead.errors import (
    BadCheckpoint,
    BadInput,
    ClearheadError,
    NotFound,
    keywords,
    renamed,
    require,
    short,
    typed,
)
from clearhead.hub.weights import digest, read_tensors, write_tensors
from clearhead.io import (
    Progress,
    being_replaced,
    check_file,
    file_digest,
    html_table,
    naming,
    parse_json,
    staged,
    write_json,
)
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.results import Hit as Hit
from clearhead.pipelines.runner import listed
from clearhead.pipelines.search.bm25 import Bm25
from clearhead.pipelines.search.graph import Graph
from clearhead.pipelines.search.passages import LONGEST, cut_passages
from clearhead.pipelines.search.ranking import Ranking, best, relevance
from clearhead.pipelines.search.searching import CANDIDATES, SearchOptions, searched
from clearhead.pipelines.search.searching import Method as Method
from clearhead.pipelines.search.store import EXACT_UP_TO, FORMAT
from clearhead.pipelines.search.vectors import Embed, VectorSearch, probe_of, same_model
from clearhead.pipelines.search.where import Condition, Where

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

_SHOWN = 10  # documents in a notebook
_FACTS, _DOCUMENTS, _WORDS, _TENSORS = "index.json", "documents.jsonl", "words.json", "index.safetensors"
_GRAPH = "index.usearch"
# seconds for another index to be put in place, where that is no single step; and between looks, of which so many find
# neither an index nor one who writes until it is said that there is none: one may come and another begin between two
_PATIENCE, _LOOK, _LOOKS = 10.0, 0.01, 3


@keywords
@dataclass(frozen=True, eq=False)
class Index:
    """Documents, their passages, the words of these, and their vectors if a model made some.

    Row p of `spans` says which document passage p is in, where it starts and where it ends. The `model` is asked to
    rerank, if it has a skill for that.
    """

    documents: tuple[Document, ...]
    spans: NDArray[np.int64]  # (P, 3)
    words: Bm25
    vectors: VectorSearch | None
    model: Model | None = field(default=None, repr=False)

    @classmethod
    @renamed(longest="max_characters")
    def build(
        cls,
        documents: Iterable[str | Document],
        model: Model | None = None,
        *,
        skill: str | Path | None = None,
        max_characters: int = LONGEST,
        progress: Progress | None = None,
    ) -> Index:
        """Cut documents into passages of at most `max_characters` and index them; without a model, by words only.

        Vectors are those of the model's skill for search, or of the one named. A plain string is a document whose
        source is its number, from 0. `progress` is told of passages embedded.

        >>> model.index(["Dogs bark.", "Cats meow."])
        Index(2 passages of 2 documents, vectors of width 384)
        """
        held = tuple(as_document(one, number) for number, one in enumerate(listed(documents)))
        rows = [(number, *span) for number, one in enumerate(held) for span in cut_passages(one.text, max_characters)]
        require(bool(rows), "there is no text to search; give documents with some words in them", BadInput)
        texts = [held[number].text[start:end] for number, start, end in rows]
        vectors = None if model is None else VectorSearch.build(texts, embedder(model, skill, progress))
        return cls(held, np.array(rows, np.int64), Bm25.build(texts), vectors, model)

    def __len__(self) -> int:
        return len(self.spans)

    def __repr__(self) -> str:
        width = "words only" if self.vectors is None else f"vectors of width {self.vectors.vectors.shape[1]}"
        return f"Index({len(self):,} passages of {len(self.documents):,} documents, {width})"

    def _repr_html_(self) -> str:
        """As a notebook shows it: the first documents, and how many passages each has."""
        shown = self.documents[:_SHOWN]
        counts = np.bincount(self.spans[:, 0], minlength=len(self.documents))
        rows = [(one.source, f"{len(one.text):,}", f"{count:,}") for one, count in zip(shown, counts, strict=False)]
        more = len(self.documents) - len(shown)
        return html_table(repr(self), ("document", "characters", "passages"), rows, more)

    def passage(self, place: int) -> str:
        """The text of a passage.

        >>> model.index(["Dogs bark.", "Cats meow."]).passage(1)
        'Cats meow.'
        """
        number, start, end = self.spans[place].tolist()
        return self.documents[number].text[start:end]

    @overload
    def search(self, queries: str, **options: Unpack[SearchOptions]) -> list[Hit]: ...  # type: ignore[overload-overlap]
    @overload
    def search(self, queries: Sequence[str], **options: Unpack[SearchOptions]) -> list[list[Hit]]: ...

    @renamed(top="top_k")
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
        """The `top_k` passages for a query, or for each of many, the best first; bm25 finds fewer if few share a word.

        The default is hybrid, where there are vectors and their model: words and meaning together, with scores that are
        probabilities, so that `min_score=0.5` leaves what is more likely right than not. With `rerank`, a cross-encoder
        reads the best again: the model's skill for that, or the model `rerank_with`. Unasked it does so where there is
        such a skill and no other method than hybrid is named. Vectors are found through a graph, where one was saved:
        that of more than 50,000 passages is; `approximate=False` compares all, True makes a graph if there is none.
        `where` leaves the documents whose metadata fit: see `where.conditions`.

        >>> hit = model.index(["Dogs bark.", "Cats meow."]).search("Who barks?", top_k=1)[0]
        >>> hit.text, hit.start, hit.end
        ('Dogs bark.', 0, 10)
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
        """Hybrid where there are vectors and their model, else bm25."""
        return "bm25" if self.vectors is None or self.vectors.embed is None else "hybrid"

    def rank(
        self, queries: list[str], top: int, method: Method, approximate: bool | None, where: Sequence[Condition]
    ) -> list[list[Hit]]:
        """The `top` passages of each query, the best first: the search itself, without what is round it."""
        if not len(self):
            return [[] for _ in queries]
        among = self.places(where)
        rankings = self._rank(queries, top, method, approximate, among)
        return [[self._hit(place, score) for place, score in zip(*one, strict=True)] for one in rankings]

    def places(self, where: Sequence[Condition]) -> NDArray[np.int64] | None:
        """The passages of documents that fit a filter; None where all do."""
        if not where:
            return None
        fits = np.array([all(one.fits(document.metadata) for one in where) for document in self.documents], bool)
        return np.flatnonzero(fits[self.spans[:, 0]])

    def _rank(
        self,
        queries: list[str],
        top: int,
        method: Method,
        approximate: bool | None,
        among: NDArray[np.int64] | None,
    ) -> Iterable[Ranking]:
        if method == "bm25":
            return self.words.rank(queries, top, among)
        if self.vectors is None:
            raise BadInput("this index was built without a model; build it with one, or search with method='bm25'")
        wanted = self.vectors.embedded(queries)
        if method == "vectors":
            return self.vectors.nearest(wanted, top, approximate=approximate, among=among)
        background = self.vectors.background

        def scored(query: str, vector: Vectors, cosines: NDArray[np.float32], at: NDArray[np.int64] | None) -> Ranking:
            shares, near = self.words.shares(query), background.nearness(vector, cosines)
            found = best(relevance(shares if at is None else shares[at], near, background.weight), top)
            return found if at is None else found.at(at)

        if among is not None:
            some = self.vectors.vectors[among]
            return [scored(query, one, some @ one, among) for query, one in zip(queries, wanted, strict=True)]
        if not (self.vectors.graph is not None if approximate is None else approximate):
            rows = zip(queries, wanted, self.vectors.cosines(wanted), strict=True)
            return [scored(query, one, row, None) for query, one, row in rows]
        depth = max(top, CANDIDATES)
        led = self.vectors.nearest(wanted, depth, approximate=approximate)
        pairs = zip(led, self.words.rank(queries, depth), strict=True)
        at = [np.union1d(near.places, shared.places) for near, shared in pairs]
        rest = zip(queries, wanted, at, strict=True)
        return [scored(query, one, self.vectors.vectors[some] @ one, some) for query, one, some in rest]

    def _hit(self, place: np.int64, score: np.float32) -> Hit:
        number, start, end = self.spans[place].tolist()
        document = self.documents[number]
        return Hit(document.text[start:end], document.source, start, end, float(score), document.metadata)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder of safetensors and JSON, which `Index.load` reads; whole or not at all.

        Of more than 50,000 vectors, there is a graph beside them, where usearch is installed (the extra `search`). A
        folder that holds an index or a model is refused, or with `overwrite` replaced.

        >>> model.index(["Dogs bark.", "Cats meow."]).save("pets")
        """
        graph = self._graph_to_save()
        arrays: dict[str, NDArray[Any]] = {"spans": self.spans}
        arrays |= {f"words.{part}": getattr(self.words, part) for part in _POSTINGS}
        if self.vectors is not None:
            arrays |= {"vectors": self.vectors.vectors, "probe": self.vectors.probe}
            if self.vectors.keys is not None and graph is not None:
                arrays["keys"] = self.vectors.keys
        # torch takes no array that may not be written to
        tensors = {name: torch.from_numpy(np.require(array, requirements="W")) for name, array in arrays.items()}
        with staged(Path(folder), overwrite=overwrite) as stage:
            with naming(stage / _DOCUMENTS), (stage / _DOCUMENTS).open("w", encoding="ascii") as lines:
                for document in self.documents:
                    known = {"metadata": dict(document.metadata)} if document.metadata else {}
                    lines.write(json.dumps({"id": document.source, "text": document.text, **known}) + "\n")
            with naming(stage / _WORDS):
                (stage / _WORDS).write_text(json.dumps(list(self.words.vocabulary)), encoding="ascii")
            write_tensors(tensors, stage / _TENSORS)
            if graph is not None:
                with naming(stage / _GRAPH):
                    graph.save(stage / _GRAPH)
            files = (_DOCUMENTS, _WORDS, *([] if graph is None else [_GRAPH]))
            digests = {_TENSORS: digest(tensors)} | {name: file_digest(stage / name) for name in files}
            facts = {"format": FORMAT, "passages": len(self), "sha256": digests}
            write_json(facts, stage / _FACTS)

    def _graph_to_save(self) -> Graph | None:
        if self.vectors is None:
            return None
        if len(self) <= EXACT_UP_TO:
            return self.vectors.graph
        try:
            return self.vectors.made_graph
        except NotFound:  # without the library all are compared, which is slower and finds no less
            return None

    @classmethod
    def load(cls, folder: str | Path, model: Model | None = None, *, skill: str | Path | None = None) -> Index:
        """Read a saved index, to be searched with the model, and the skill, that built it; without one, by words only.

        One that was built without a model is searched by words, whatever model is given.

        >>> from clearhead.pipelines.search.index import Index
        >>> model.index(["Dogs bark."]).save("dogs")
        >>> Index.load("dogs", model)
        Index(1 passages of 1 documents, vectors of width 384)
        """
        index, _ = read_index(Path(folder))
        if model is None or index.vectors is None:
            return replace(index, model=model)
        embed = embedder(model, skill)
        if not index.vectors.made_by(embed):
            raise BadInput(made_otherwise(f"the index in {folder}", index.vectors.probe, model, skill))
        return replace(index, vectors=replace(index.vectors, embed=embed), model=model)


def made_otherwise(what: str, probe: Vectors, model: Model, skill: str | Path | None) -> str:
    """The sentence about vectors that the model did not make, or made with another skill."""
    for name in model.skills:
        one = model.skill(name)
        if one.checkpoint.sentence is not None and same_model(probe, probe_of(embedder(model, name))):
            now = skill or model.uses.get("search", "none")
            told = f"{what} was built with the skill {name!r}, and would be searched with {str(now)!r}"
            return f"{told}; build the index again, or name the old skill: skill={name!r}, --skill {name}"
    told = f"{what} was built with another model, of width {probe.shape[1]}"
    return f"{told}; load that model, or build the index again with this one"


_POSTINGS = ("starts", "passages", "counts", "lengths")  # the arrays of Bm25, as they are stored


def read_facts(folder: Path) -> BinaryIO:
    """The open file by which an index is known: digests of all its other files. One that is put there is waited for."""
    until, left = time.monotonic() + _PATIENCE, _LOOKS
    while True:
        try:
            return (folder / _FACTS).open("rb")
        except FileNotFoundError:
            left -= not (being_replaced(folder) and time.monotonic() < until)
            if not left:
                raise NotFound(f"{folder} holds no index ({_FACTS} is not there); build one first") from None
            time.sleep(_LOOK)


def read_index(folder: Path) -> tuple[Index, bytes]:
    """A saved index without a model, and the content of the file by which it is known.

    Each file is read, or mapped, once, so that what was checked is what is used; and where another index took the
    place of this one meanwhile, that is read instead.
    """
    while True:
        with read_facts(folder) as file:
            facts = file.read()
            try:
                return _read(folder, facts), facts
            except (ClearheadError, OSError):
                with read_facts(folder) as now:  # as long as the first is open, no other file can have its number
                    if os.path.samestat(os.fstat(file.fileno()), os.fstat(now.fileno())) and now.read() == facts:
                        raise


def _read(folder: Path, content: bytes) -> Index:
    """The index that these facts describe; refuse files that are missing, damaged or do not belong together."""
    check_file(folder / _FACTS)
    facts = typed(parse_json(content, str(folder / _FACTS), BadCheckpoint), dict[str, Any], str(folder / _FACTS))
    known = facts.get("format")
    written = f"{folder} was written in format {short(known)}, this version reads {FORMAT}; build the index again"
    require(known == FORMAT, written, BadCheckpoint)
    digests = typed(facts.get("sha256"), dict[str, str], f"{folder / _FACTS}: sha256")
    tensors = read_tensors(folder / _TENSORS)
    _check_digest(folder / _TENSORS, digest(tensors), digests)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    documents = _documents(_content(folder / _DOCUMENTS, digests), folder / _DOCUMENTS)
    names = parse_json(_content(folder / _WORDS, digests)[:], str(folder / _WORDS), BadCheckpoint)
    vocabulary = {str(word): number for number, word in enumerate(names if isinstance(names, list) else ())}
    _check_arrays(arrays, documents, len(vocabulary), folder)
    words = Bm25(vocabulary, *(arrays[f"words.{part}"] for part in _POSTINGS))
    vectors = VectorSearch(arrays["vectors"], arrays["probe"], None) if "vectors" in arrays else None
    if vectors is not None and _GRAPH in digests:
        path = folder / _GRAPH
        graph = Graph.open(path, _content(path, digests, mapped=True), *vectors.vectors.shape)
        vectors = replace(vectors, graph=graph, keys=arrays.get("keys"))
    return Index(documents, arrays["spans"], words, vectors)


def _content(path: Path, digests: Mapping[str, str], *, mapped: bool = False) -> bytes | mmap.mmap:
    """What a file holds, if it is what the facts speak of."""
    check_file(path)
    try:
        with path.open("rb") as file:
            fits = mapped and os.fstat(file.fileno()).st_size > 0  # no empty file can be mapped
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if fits else file.read()
    except FileNotFoundError:
        raise NotFound(f"{path.parent} lacks {path.name}; build the index again") from None
    _check_digest(path, hashlib.sha256(held).hexdigest(), digests)
    return held


def _check_digest(path: Path, found: str, digests: Mapping[str, str]) -> None:
    require(digests.get(path.name) == found, f"{path} is damaged or changed; build the index again", BadCheckpoint)


def _documents(content: bytes | mmap.mmap, path: Path) -> tuple[Document, ...]:
    found = []
    for number, line in enumerate(io.BytesIO(content), start=1):
        one = parse_json(line, f"{path}, line {number}", BadCheckpoint)
        good = isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("id", "text"))
        known = one.get("metadata", {}) if good else None
        good = isinstance(known, dict) and all(isinstance(value, str | int | float) for value in known.values())
        require(good, f"{path}, line {number} is no document with id and text; build the index again", BadCheckpoint)
        found.append(Document(one["text"], one["id"], one.get("metadata", {})))
    return tuple(found)


def _check_arrays(arrays: dict[str, NDArray[Any]], documents: tuple[Document, ...], words: int, folder: Path) -> None:
    """Refuse arrays that do not belong together: a search would read past their ends, or past a document's."""
    spans, vectors = arrays.get("spans"), arrays.get("vectors")
    starts, passages, counts, lengths = (arrays.get(f"words.{part}", np.zeros(0)) for part in _POSTINGS)
    good = spans is not None and spans.shape == (len(lengths), 3) and (vectors is None) == ("probe" not in arrays)
    good = good and all(array.dtype.kind == "i" and array.ndim == 1 for array in (starts, passages, counts, lengths))
    good = (
        good
        and spans is not None
        and spans.dtype.kind == "i"
        and len(starts) == words + 1
        and len(passages) == len(counts)
    )
    if good and spans is not None:
        borders = np.diff(starts, prepend=0, append=len(passages))
        good = bool((borders >= 0).all() and starts[0] == 0 and starts[-1] == len(passages) and (counts > 0).all())
        good = good and bool(
            (lengths >= 0).all() and _within(passages, len(lengths)) and _within(spans[:, 0], len(documents))
        )
    if good and spans is not None:
        ends = np.array([len(document.text) for document in documents], np.int64)[spans[:, 0]]
        good = bool((spans[:, 1] >= 0).all() and (spans[:, 1] <= spans[:, 2]).all() and (spans[:, 2] <= ends).all())
    for matrix, rows in ((vectors, len(lengths)), (arrays.get("probe"), 0 if vectors is None else None)):
        if matrix is not None:
            fits = matrix.ndim == 2 and matrix.dtype.kind == "f" and rows in (None, len(matrix))
            good = good and bool(fits and np.isfinite(matrix).all())
    if (keys := arrays.get("keys")) is not None:
        good = good and keys.shape == lengths.shape and keys.dtype.kind == "i" and len(np.unique(keys)) == len(keys)
    require(good, f"the files of {folder} do not belong together; build the index again", BadCheckpoint)


def _within(numbers: NDArray[Any], end: int) -> bool:
    return bool(((numbers >= 0) & (numbers < end)).all())


def embedder(model: Model, skill: str | Path | None, progress: Progress | None = None) -> Embed:
    """What makes unit vectors of texts: the model's skill for search, or the one named."""
    return lambda texts: model.able("search", skill).embed(texts, normalise=True, progress=progress)


def as_document(given: object, number: int) -> Document:
    """A document as it was given; a plain string is one whose source is its number."""
    if isinstance(given, Document):
        return given
    require(isinstance(given, str), f"A document is a string or a Document, not {type(given).__name__}.", BadInput)
    return Document(str(given), str(number))
