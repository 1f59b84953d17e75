"""The uses that need no head: a text becomes vectors, and vectors are compared, searched and grouped."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from clearhead.errors import BadInput, require
from clearhead.hub.folder import Checkpoint
from clearhead.nn.heads import Pooling, SentenceVector
from clearhead.pipelines.cluster import Cluster, cluster
from clearhead.pipelines.duplicates import Duplicate, duplicates
from clearhead.pipelines.embed import Vectors, embed
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.inputs import as_given, listed
from clearhead.pipelines.layers import Combine, last_layers
from clearhead.pipelines.manner import How
from clearhead.pipelines.precision import Precision, Ranges, quantise
from clearhead.pipelines.search.index import Hit, Index, Method
from clearhead.pipelines.search.passages import Document
from clearhead.pipelines.senses import Senses, senses
from clearhead.pipelines.summarise import summarise
from clearhead.pipelines.tokens import token_vectors
from clearhead.pipelines.writes import Writes
from clearhead.text import Tokenizer

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


class ByVectors(Writes):
    """What a `Model` does with its encoder alone."""

    checkpoint: Checkpoint

    @property
    def encoder(self) -> Any:
        """The encoder: ids to hidden states."""
        return self.checkpoint.network.encoder

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the checkpoint."""
        raise NotImplementedError

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        pooling: Pooling | None = None,
        normalise: bool | None = None,
        dimensions: int | None = None,
        precision: Precision = "float32",
        ranges: Ranges | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> Vectors:
        """One vector per text, (texts, D); for a single string, (D,).

        `layers` counts from 0, the embeddings, or from -1, the last. Pooling and normalisation are the checkpoint's
        own where it says how (sentence-transformers folders do), else the mean over tokens. `dimensions` keeps the
        first; for `precision` and its `ranges` see `pipelines.precision`.
        """
        own = self.checkpoint.sentence or SentenceVector("mean")
        vector = SentenceVector(
            own.pooling if pooling is None else pooling,
            normalise=own.normalise if normalise is None else normalise,
        )
        single = isinstance(texts, str)
        vectors = embed(
            self.encoder,
            self.tokenizer,
            listed(texts),
            vector=vector,
            layers=layers,
            combine=combine,
            dimensions=dimensions,
            batch_tokens=batch_tokens,
            progress=progress,
        )
        vectors = quantise(vectors, precision, ranges)
        return vectors[0] if single else vectors

    def token_vectors(
        self,
        texts: str | Iterable[str],
        *,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        progress: Progress | None = None,
    ) -> Any:
        """A vector for each token of a text, with its characters' offsets, from any layer or mix of layers."""
        given = listed(texts)
        found = token_vectors(self.encoder, self.tokenizer, given, layers=layers, combine=combine, progress=progress)
        return as_given(texts, found)

    def index(
        self, documents: Iterable[str | Document], *, longest: int | None = None, progress: Progress | None = None
    ) -> Index:
        """Build an index to be searched and saved; for its options see `Index.build`."""
        return Index.build(
            documents, cast("Model", self), **({} if longest is None else {"longest": longest}), progress=progress
        )

    def search(
        self, query: str, documents: Iterable[str | Document], *, top: int = 10, method: Method | None = None
    ) -> list[Hit]:
        """The passages of a few documents that fit the query best; to search more than once, keep an `index`."""
        return self.index(documents).search(query, top=top, method=method)

    def cluster(
        self,
        texts: Iterable[str],
        *,
        threshold: float | None = None,
        clusters: int | None = None,
        progress: Progress | None = None,
    ) -> list[Cluster]:
        """Which texts belong together? As near as `threshold`, a cosine, or in a given number of `clusters`."""
        vectors = self.embed(listed(texts), normalise=True, progress=progress)
        return cluster(vectors, threshold=threshold, clusters=clusters)

    def duplicates(
        self, texts: Iterable[str], *, threshold: float = 0.9, progress: Progress | None = None
    ) -> list[Duplicate]:
        """Which texts repeat another, letter for letter or with a cosine of at least `threshold`?"""
        return duplicates(
            list(listed(texts)), lambda one: self.embed(one, normalise=True, progress=progress), threshold
        )

    def summarise(
        self,
        texts: str | Iterable[str],
        *,
        sentences: int | None = None,
        abstractive: bool = False,
        longest: int | None = None,
        progress: Progress | None = None,
        **how: Unpack[How],
    ) -> Any:
        """The sentences that say most of a text, in its order, three unless `sentences` says how many.

        Or `abstractive`, in an encoder–decoder's own words, of `longest` tokens at most; for `how` see
        `pipelines.manner`.
        """
        if abstractive:
            return super().summarise(
                texts, sentences=sentences, abstractive=True, longest=longest, progress=progress, **how
            )
        written = [*(["longest"] if longest is not None else []), *how]
        require(not written, f"{', '.join(written)}: only abstractive summaries are written", BadInput)
        given, count = listed(texts), 3 if sentences is None else sentences
        found = summarise(given, lambda one: self.embed(one, normalise=True, progress=progress), sentences=count)
        return as_given(texts, found)

    def senses(
        self,
        word: str | Sequence[str],
        texts: Iterable[str],
        *,
        layers: Sequence[int] | None = None,
        threshold: float | None = None,
        count: int | None = None,
    ) -> Senses:
        """What does a word mean in each place? Its forms may be given as a list; see `pipelines.senses`.

        Vectors are the mean of `layers`, by default the last four, which tell senses apart better than the last alone.
        """
        given = list(listed(texts))
        tokens = token_vectors(self.encoder, self.tokenizer, given, layers=layers or last_layers(self.encoder))
        return senses(word, given, tokens, threshold=threshold, count=count)
