"""An index over documents: built once, saved as a folder, searched by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, require
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.inputs import listed
from clearhead.pipelines.search import storage
from clearhead.pipelines.search.bm25 import Bm25
from clearhead.pipelines.search.passages import LONGEST, Document, cut_passages
from clearhead.pipelines.search.ranking import Ranking, fuse
from clearhead.pipelines.search.rerank import rerank
from clearhead.pipelines.search.vectors import Embed, VectorSearch

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

Method = Literal["vectors", "bm25", "hybrid"]

_CANDIDATES = 100  # that each of two rankings puts forward, and that a cross-encoder reads


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: a verbatim slice, document[start:end], of the document that `source` names.

    The score is a cosine, a BM25 score, a sum of reciprocal ranks, or a cross-encoder's, as the search was asked.
    """

    text: str
    source: str
    start: int
    end: int
    score: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Index:
    """Documents, their passages, the words of these, and their vectors if a model made some.

    Row p of `spans` says which document passage p is in, where it starts and where it ends.
    """

    documents: tuple[Document, ...]
    spans: NDArray[np.int64]  # (P, 3)
    words: Bm25
    vectors: VectorSearch | None

    @classmethod
    def build(
        cls,
        documents: Iterable[str | Document],
        model: Model | None = None,
        *,
        longest: int = LONGEST,
        progress: Progress | None = None,
    ) -> Index:
        """Cut documents into passages of at most `longest` characters and index them; without a model, by words only.

        A plain string is a document whose source is its number, from 0. `progress` is told of passages embedded.
        """
        held = tuple(
            one if isinstance(one, Document) else Document(_checked(one), str(number))
            for number, one in enumerate(listed(documents))
        )
        rows = [(number, *span) for number, one in enumerate(held) for span in cut_passages(one.text, longest)]
        require(bool(rows), "there is no text to search; give documents with some words in them", BadInput)
        texts = [held[number].text[start:end] for number, start, end in rows]
        vectors = None if model is None else VectorSearch.build(texts, _embedder(model, progress))
        return cls(held, np.array(rows, np.int64), Bm25.build(texts), vectors)

    def __len__(self) -> int:
        return len(self.spans)

    def passage(self, place: int) -> str:
        """The text of a passage."""
        number, start, end = self.spans[place].tolist()
        return self.documents[number].text[start:end]

    def search(
        self,
        queries: str | Sequence[str],
        *,
        top: int = 10,
        method: Method | None = None,
        rerank_with: Model | None = None,
        approximate: bool = False,
    ) -> Any:
        """The `top` passages for a query, or for each of many, the best first; bm25 finds fewer if few share a word.

        The default is vectors, where there are some; hybrid fuses both rankings. `rerank_with` is a cross-encoder that
        reads the best 100 again; `approximate` finds vectors through a graph that is made at the first such search.
        """
        asked = list(listed(queries))
        require(top > 0, f"top={top} passages cannot be given; choose 1 or more", BadInput)
        require(all(query.strip() for query in asked), "the query is empty; give some words", BadInput)
        chosen = method or ("bm25" if self.vectors is None else "vectors")
        rankings = self._rank(asked, top if rerank_with is None else max(top, _CANDIDATES), chosen, approximate)
        if rerank_with is not None:
            rankings = [
                rerank(rerank_with, query, [self.passage(place) for place in ranking.places], ranking, top)
                for query, ranking in zip(asked, rankings, strict=True)
            ]
        hits = [[self._hit(*pair) for pair in zip(*ranking, strict=True)] for ranking in rankings]
        return hits[0] if isinstance(queries, str) else hits

    def save(self, folder: str | Path) -> None:
        """Write a folder of safetensors and JSON, which `Index.load` reads; whole or not at all."""
        storage.write(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, model: Model | None = None) -> Index:
        """Read a saved index, to be searched with the model that built it; without one, by words only."""
        index = cls(*storage.read(Path(folder)))
        if model is None:
            return index
        held = index.vectors
        require(held is not None, f"{folder} was built without a model; search it with method='bm25'", BadInput)
        return replace(index, vectors=None if held is None else held.of(_embedder(model, None)))

    def _rank(self, queries: list[str], top: int, method: str, approximate: bool) -> list[Ranking]:
        known = get_args(Method)
        require(method in known, f"method={method!r} is not known; choose {', '.join(known)}", BadInput)
        if method == "bm25":
            return self.words.rank(queries, top)
        if self.vectors is None:
            raise BadInput("this index was built without a model; build it with one, or search with method='bm25'")
        if method == "vectors":
            return self.vectors.rank(queries, top, approximate=approximate)
        depth = max(top, _CANDIDATES)
        both = zip(
            self.vectors.rank(queries, depth, approximate=approximate), self.words.rank(queries, depth), strict=True
        )
        return [fuse(pair, top) for pair in both]

    def _hit(self, place: np.int64, score: np.float32) -> Hit:
        number, start, end = self.spans[place].tolist()
        return Hit(self.passage(int(place)), self.documents[number].source, start, end, float(score))


def _embedder(model: Model, progress: Progress | None) -> Embed:
    return lambda texts: model.embed(texts, normalise=True, progress=progress)


def _checked(text: object) -> str:
    require(isinstance(text, str), f"A document is a string or a Document, not {type(text).__name__}.", BadInput)
    return str(text)
