"""How a client's methods are called, for type checkers: what comes of one text, of many, and of a stream.

Every protocol names its results, so that the asynchronous client has the same, to be awaited: of a stream it gives an
asynchronous iterator. Nothing imports this file when a program runs.
"""

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from numpy.typing import NDArray

from clearhead.data.documents import Document
from clearhead.decoding.config import GenerationOptions
from clearhead.io import Progress
from clearhead.pipelines.results import Answer, Choice, FoundAnswer, Hit, Reranked, Rewritten, Summary

P = ParamSpec("P")
Value = TypeVar("Value")
Given = TypeVar("Given", contravariant=True)
Source = TypeVar("Source", contravariant=True)  # the stream that is taken
Either = TypeVar("Either")  # the same where it may be one of two
One = TypeVar("One", covariant=True)
Several = TypeVar("Several", covariant=True)
Stream = TypeVar("Stream", covariant=True)
OneList = TypeVar("OneList", covariant=True)  # where num_return_sequences are asked for
SeveralLists = TypeVar("SeveralLists", covariant=True)
StreamOfLists = TypeVar("StreamOfLists", covariant=True)

Later = Coroutine[Any, Any, Value]


class OfTexts(Protocol[Given, Source, P, One, Several, Stream]):
    """A use of texts; every column of known length counts as a list."""

    @overload
    def __call__(self, texts: str, *args: P.args, **options: P.kwargs) -> One: ...
    @overload
    def __call__(self, texts: Collection[Given], *args: P.args, **options: P.kwargs) -> Several: ...
    @overload
    def __call__(self, texts: Source, *args: P.args, **options: P.kwargs) -> Stream: ...


class OfPairs(Protocol[Either, P, One, Several, Stream]):
    """A use of pairs of texts."""

    @overload
    def __call__(self, first: str, second: str, *args: P.args, **options: P.kwargs) -> One: ...
    @overload
    def __call__(self, first: str, second: Collection[str], *args: P.args, **options: P.kwargs) -> Several: ...
    @overload
    def __call__(self, first: str, second: Either, *args: P.args, **options: P.kwargs) -> Stream: ...
    @overload
    def __call__(
        self, first: Collection[str], second: str | Iterable[str], *args: P.args, **options: P.kwargs
    ) -> Several: ...
    @overload
    def __call__(self, first: Either, second: str | Iterable[str], *args: P.args, **options: P.kwargs) -> Stream: ...


class OfPrompts(Protocol[Source, P, One, Several, Stream, OneList, SeveralLists, StreamOfLists]):
    """A use that writes: given `num_return_sequences`, it gives a list for each text."""

    @overload
    def __call__(self, texts: str, *args: P.args, **options: P.kwargs) -> One: ...
    @overload
    def __call__(self, texts: Collection[str], *args: P.args, **options: P.kwargs) -> Several: ...
    @overload
    def __call__(self, texts: Source, *args: P.args, **options: P.kwargs) -> Stream: ...
    @overload
    def __call__(self, texts: str, *, num_return_sequences: int, **options: Any) -> OneList: ...
    @overload
    def __call__(self, texts: Collection[str], *, num_return_sequences: int, **options: Any) -> SeveralLists: ...
    @overload
    def __call__(self, texts: Source, *, num_return_sequences: int, **options: Any) -> StreamOfLists: ...


class _Options(TypedDict, total=False):
    model: str | None
    progress: Progress | None


class _WithSkill(_Options, total=False):
    skill: str | None


class AnswerOptions(_WithSkill, total=False):
    """What `answer` may be told."""

    top_k: int
    threshold: float | None
    max_answer_length: int
    whole_words: bool


FoundOne = TypeVar("FoundOne", covariant=True)
FoundSeveral = TypeVar("FoundSeveral", covariant=True)


class Answers(Protocol[Either, One, Several, Stream, FoundOne, FoundSeveral]):
    """The call of `answer`: of questions and contexts, or of questions and an index of the service."""

    @overload
    def __call__(self, questions: str, *, index: str, **options: Unpack[AnswerOptions]) -> FoundOne: ...
    @overload
    def __call__(self, questions: Collection[str], *, index: str, **options: Unpack[AnswerOptions]) -> FoundSeveral: ...
    @overload
    def __call__(self, questions: str, contexts: str, **options: Unpack[AnswerOptions]) -> One: ...
    @overload
    def __call__(self, questions: str, contexts: Collection[str], **options: Unpack[AnswerOptions]) -> Several: ...
    @overload
    def __call__(self, questions: str, contexts: Either, **options: Unpack[AnswerOptions]) -> Stream: ...
    @overload
    def __call__(
        self, questions: Collection[str], contexts: str | Iterable[str], **options: Unpack[AnswerOptions]
    ) -> Several: ...
    @overload
    def __call__(
        self, questions: Either, contexts: str | Iterable[str], **options: Unpack[AnswerOptions]
    ) -> Stream: ...


class Chooses(Protocol[Source, One, Several, Stream]):
    """The call of `choose`: one context with its candidates, or many of both."""

    @overload
    def __call__(self, contexts: str, candidates: Sequence[str], **options: Unpack[_Options]) -> One: ...
    @overload
    def __call__(self, contexts: Collection[tuple[str, Sequence[str]]], **options: Unpack[_Options]) -> Several: ...
    @overload
    def __call__(self, contexts: Source, **options: Unpack[_Options]) -> Stream: ...


class RerankOptions(_WithSkill, total=False):
    """What `rerank` may be told."""

    top_k: int | None


class Reranks(Protocol[Source, One, Several, Stream]):
    """The call of `rerank`: one query with its passages, or many of both."""

    @overload
    def __call__(self, query: str, passages: Iterable[str], **options: Unpack[RerankOptions]) -> One: ...
    @overload
    def __call__(self, query: Collection[tuple[str, Iterable[str]]], **options: Unpack[RerankOptions]) -> Several: ...
    @overload
    def __call__(self, query: Source, **options: Unpack[RerankOptions]) -> Stream: ...


class SearchOptions(TypedDict, total=False):
    """What `search` may be told, beside where to look: documents, or an index of the service."""

    index: str
    model: str | None
    skill: str | None
    top_k: int
    method: Literal["vectors", "bm25", "hybrid"] | None
    min_score: float | None
    rerank: bool | None


class Searches(Protocol[One, Several]):
    """The call of `search`: of one query, or of many."""

    @overload
    def __call__(
        self, query: str, documents: Iterable[str | Document] = ..., **options: Unpack[SearchOptions]
    ) -> One: ...
    @overload
    def __call__(
        self, query: Collection[str], documents: Iterable[str | Document] = ..., **options: Unpack[SearchOptions]
    ) -> Several: ...


class EmbedOptions(_WithSkill, total=False):
    """What `embed` may be told."""

    layers: Sequence[int]
    combine: Literal["mean", "sum", "concat"]
    pooling: Literal["mean", "first", "max", "weighted"] | None
    normalise: bool | None
    dimensions: int | None
    precision: Literal["float32", "binary"]


class Embeds(Protocol[One]):
    """The call of `embed`: an array, of one text or of many."""

    def __call__(self, texts: str | Iterable[str], **options: Unpack[EmbedOptions]) -> One:
        """One vector per text, (texts, D); for a single string, (D,)."""


class AbstractiveOptions(GenerationOptions, total=False):
    """What an abstractive summary may be told."""

    model: str | None
    max_new_tokens: int
    progress: Progress | None


class StreamOptions(GenerationOptions, total=False):
    """What `stream` may be told, beside how much."""

    model: str | None


Picked = TypeVar("Picked", covariant=True)
PickedSeveral = TypeVar("PickedSeveral", covariant=True)
PickedStream = TypeVar("PickedStream", covariant=True)


class Summarises(Protocol[Source, Picked, PickedSeveral, PickedStream, One, Several, Stream]):
    """The call of `summarise`: a text's own sentences, or new words."""

    @overload
    def __call__(self, texts: str, *, sentences: int | None = None, **options: Unpack[_Options]) -> Picked: ...
    @overload
    def __call__(
        self, texts: Collection[str], *, sentences: int | None = None, **options: Unpack[_Options]
    ) -> PickedSeveral: ...
    @overload
    def __call__(self, texts: Source, *, sentences: int | None = None, **options: Unpack[_Options]) -> PickedStream: ...
    @overload
    def __call__(self, texts: str, *, abstractive: Literal[True], **options: Unpack[AbstractiveOptions]) -> One: ...
    @overload
    def __call__(
        self, texts: Collection[str], *, abstractive: Literal[True], **options: Unpack[AbstractiveOptions]
    ) -> Several: ...
    @overload
    def __call__(
        self, texts: Source, *, abstractive: Literal[True], **options: Unpack[AbstractiveOptions]
    ) -> Stream: ...


Texts = Iterator[str]
Lists = Iterator[tuple[str, Sequence[str]]]
LaterTexts = Iterator[str] | AsyncIterator[str]
LaterLists = Iterator[tuple[str, Sequence[str]]] | AsyncIterator[tuple[str, Sequence[str]]]

Answering = Answers[Texts, Answer, list[Answer], Iterator[Answer], FoundAnswer, list[FoundAnswer]]
Choosing = Chooses[Lists, Choice, list[Choice], Iterator[Choice]]
Reranking = Reranks[Lists, list[Reranked], list[list[Reranked]], Iterator[list[Reranked]]]
Searching = Searches[list[Hit], list[list[Hit]]]
Embedding = Embeds[NDArray[Any]]
Summarising = Summarises[
    Texts, Summary, list[Summary], Iterator[Summary], Rewritten, list[Rewritten], Iterator[Rewritten]
]
AnsweringLater = Answers[
    LaterTexts,
    Later[Answer],
    Later[list[Answer]],
    AsyncIterator[Answer],
    Later[FoundAnswer],
    Later[list[FoundAnswer]],
]
ChoosingLater = Chooses[LaterLists, Later[Choice], Later[list[Choice]], AsyncIterator[Choice]]
RerankingLater = Reranks[LaterLists, Later[list[Reranked]], Later[list[list[Reranked]]], AsyncIterator[list[Reranked]]]
SearchingLater = Searches[Later[list[Hit]], Later[list[list[Hit]]]]
EmbeddingLater = Embeds[Later[NDArray[Any]]]
SummarisingLater = Summarises[
    LaterTexts,
    Later[Summary],
    Later[list[Summary]],
    AsyncIterator[Summary],
    Later[Rewritten],
    Later[list[Rewritten]],
    AsyncIterator[Rewritten],
]

Call = TypeVar("Call", covariant=True)


class Method(Protocol[Call]):
    """A method with such a call; of the class itself, a plain function."""

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: object, owner: type) -> Call: ...
