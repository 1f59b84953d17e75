"""The bodies of clearhead's own routes: one struct for each use, with the keywords of its method in Python.

Apart from the routes, since these are what OpenAPI shows, and bounds are all that they say.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_SAID = r"\S"  # something beside spaces
_LARGEST = 2**31 - 1

Said = Annotated[str, Meta(pattern=_SAID)]
Texts = str | Annotated[list[str], Meta(min_length=1)]
Questions = Said | Annotated[list[Said], Meta(min_length=1)]
Lists = Annotated[list[str | Annotated[list[str], Meta(min_length=1)]], Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=_LARGEST)]
Size = Annotated[int, Meta(ge=0, le=_LARGEST)]
Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
NewTokens = Annotated[int, Meta(ge=1, le=65_536, description="The most that are written.")]
Several = Annotated[int, Meta(ge=1, le=256)]
TopK = Annotated[int, Meta(ge=1, le=_LARGEST, description="How many of the best to give.")]


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What all requests have: the id of a model, or of one of its skills; without it, the one made for the use."""

    model: str | None = None


class FillRequest(Request, kw_only=True):
    """Texts with [MASK] where a word is wanted."""

    text: Questions
    top_k: TopK | None = None
    candidates: Annotated[list[Said], Meta(min_length=1, description="The words to choose from.")] | None = None


Pair = Annotated[list[str], Meta(min_length=2, max_length=2)]


class ClassifyRequest(Request, kw_only=True):
    """Texts, or in a list pairs of texts."""

    text: str | Annotated[list[str | Pair], Meta(min_length=1)]
    top_k: TopK | None = None


class ZeroShotRequest(Request, kw_only=True):
    """Texts, and the labels to choose from."""

    text: Texts
    labels: Annotated[list[Said], Meta(min_length=1)]
    hypothesis_template: Annotated[str, Meta(description="Has {} where the label goes.")] | None = None
    multi_label: Annotated[bool, Meta(description="Several labels may fit.")] | None = None
    top_k: TopK | None = None


class FollowsRequest(Request, kw_only=True):
    """Pairs of texts: one with one, one with many, many with one, or two lists of equal length."""

    first: Texts
    second: Texts


class CompareRequest(FollowsRequest, kw_only=True):
    """Pairs of texts: one with one, one with many, many with one, or two lists of equal length."""

    top_k: TopK | None = None


Strategy = Literal["simple", "first", "average", "max"]


class TagRequest(Request, kw_only=True):
    """Texts, or in a list texts as lists of words."""

    text: str | Lists
    aggregation_strategy: Strategy | None = None
    words: Annotated[bool, Meta(description="Whether to give the words beside the entities.")] = True


class AnswerRequest(Request, kw_only=True):
    """Questions and the contexts to read, paired as in compare; or an index in place of the contexts."""

    question: Questions
    context: Texts | None = None
    index: Annotated[str, Meta(description="The name of an index that the service was started with.")] | None = None
    top_k: TopK | None = None
    threshold: (
        Annotated[
            Number | Literal["inf"],
            Meta(description='Abstain when "no answer" beats the best span by more than this; "inf": always answer.'),
        ]
        | None
    ) = None
    max_answer_length: Count | None = None
    whole_words: bool | None = None


class ChooseRequest(Request, kw_only=True):
    """A context and its candidates; or a list of contexts, with a list of candidates for each, or one for all."""

    context: Texts
    candidates: Lists


Layer = Annotated[int, Meta(ge=-1024, le=1024)]


class EmbedRequest(Request, kw_only=True):
    """Texts, each of which gets one vector."""

    text: Texts
    layers: Annotated[list[Layer], Meta(min_length=1, max_length=1024)] | None = None
    combine: Literal["mean", "sum", "concat"] | None = None
    pooling: Literal["mean", "first", "max", "weighted"] | None = None
    normalise: bool | None = None
    dimensions: Count | None = None
    precision: Literal["float32", "binary"] | None = None
    encoding_format: Annotated[
        Literal["float", "base64"], Meta(description="base64: the bytes, little-endian float32, or uint8 of binary.")
    ] = "float"


class NamedDocument(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A document and its name, which is the `source` of what is found in it; else that is its place, from 0."""

    id: str | int
    text: str


class SearchRequest(Request, kw_only=True):
    """Queries, and the documents to look in; or an index in place of the documents."""

    query: Questions
    documents: Annotated[list[str | NamedDocument], Meta(min_length=1)] | None = None
    index: Annotated[str, Meta(description="The name of an index that the service was started with.")] | None = None
    top_k: TopK | None = None
    method: Literal["vectors", "bm25", "hybrid"] | None = None
    min_score: Number | None = None
    rerank: bool | None = None


class RerankRequest(Request, kw_only=True):
    """A query and its passages; or a list of queries, with a list of passages for each, or one for all."""

    query: Questions
    passages: Lists
    top_k: TopK | None = None


class Writing(Request, kw_only=True):
    """How text is written; what would change nothing, such as a seed without sampling, is refused."""

    num_beams: Several | None = None
    length_penalty: Number | None = None
    early_stopping: bool | None = None
    temperature: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    min_new_tokens: Annotated[int, Meta(ge=0, le=65_536)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    no_repeat_ngram_size: Size | None = None
    stop_strings: (
        Annotated[str, Meta(min_length=1)]
        | Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=64)]
        | None
    ) = None
    whole_sentences: bool | None = None
    top_k: Annotated[int, Meta(ge=0, le=_LARGEST, description="Sample among so many tokens; 0: all.")] | None = None


class SummariseRequest(Writing, kw_only=True):
    """Texts, of which the sentences that say most are kept; or that are told in other words."""

    text: Texts
    sentences: Count | None = None
    abstractive: Annotated[bool, Meta(description="In the model's own words; the other options need it.")] | None = None
    max_new_tokens: NewTokens | None = None


class TranslateRequest(Writing, kw_only=True):
    """Texts in one language; a model of many is told its codes for both."""

    text: Texts
    src_lang: str | None = None
    tgt_lang: str | None = None
    prefix: Annotated[str, Meta(description="Put before every sentence.")] | None = None
    num_return_sequences: Annotated[int, Meta(ge=1, le=256, description="Gives a list for each text.")] | None = None


class GenerateRequest(Writing, kw_only=True):
    """Prompts to write on from."""

    text: Texts
    max_new_tokens: NewTokens | None = None
    num_return_sequences: Annotated[int, Meta(ge=1, le=256, description="Gives a list for each text.")] | None = None
    stream: Annotated[bool, Meta(description="Of one text, piece by piece while it is written.")] = False
