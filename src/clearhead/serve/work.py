"""What the service asks of its models, and what comes back: the words that every dialect is translated into.

Plain data without torch, which goes from the process that speaks HTTP to the one that computes.
"""

from typing import Any, Literal

import msgspec

Use = Literal[
    "fill",
    "classify",
    "zero-shot",
    "compare",
    "follows",
    "tag",
    "answer",
    "choose",
    "embed",
    "search",
    "rerank",
    "summarise",
    "translate",
    "generate",
    # what other services offer beside
    "embed-tokens",
    "tokenise",
    "detokenise",
]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A use of one model on many items; each gets its result, and the options are those of the method in Python.

    An item is what the method takes: a text; for compare and follows a pair of texts, for answer [question, context],
    for choose [context, candidates], for rerank [query, passages]. classify takes pairs too, tag lists of words, embed
    and detokenise token ids. search and answer may look into an `index` that the service was started with.

    Texts longer than the model are read in windows, unless a dialect wants them refused, or cut to `max_tokens` (if it
    does not say how many, to what the model reads at once).
    """

    use: Use
    items: list[Any]
    model: str | None = None  # an id such as "built-in:spam"; without one, the built-in model for the use
    options: dict[str, Any] = {}
    too_long: Literal["windows", "refuse", "cut-end", "cut-start"] = "windows"
    max_tokens: int | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: a result for each item, as `to_dict` of the method's result gives it.

    A vector is its bytes: float32, little-endian (precision="binary": uint8); of embed-tokens a dictionary with tokens,
    offsets, vectors and width. rerank and search give lists; tokenise a list of {id, text, special, start, stop}.
    """

    results: list[Any]
    model: str  # the id of the model that answered
    read: int = 0  # tokens, with special tokens and the overlap of windows
    written: int = 0  # tokens that were generated
    cut: int = 0  # items that were cut, since that was asked for
    labels: list[str] = []  # of classify: all classes in the model's own order, which `scores` does not keep
    tokenise_seconds: float = 0.0
    queue_seconds: float = 0.0
    compute_seconds: float = 0.0
    total_seconds: float = 0.0


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be asked, or one of its skills: an id of GET /v1/models."""

    id: str
    parent: str | None = None  # the model that a skill corrects
    uses: list[str] = []
    loaded: bool = False
    family: str | None = None  # from here on, what is known once it is loaded
    parameters: int | None = None
    max_length: int | None = None  # tokens that are read at once
    dimensions: int | None = None
    pooling: str | None = None
    labels: list[str] = []


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be asked; `default` is the id for each use where none is named."""

    models: list[Served]
    default: dict[str, str]
    indexes: list[str] = []
    created: int = 0  # when the service was started, in seconds since 1970
    max_queue_tokens: int = 0


# what is wrong with a request, and the status that says so
STATUS = {
    "invalid": 422,  # cannot be understood: which field, and what to do
    "wrong_task": 422,  # the model has no head for the use
    "unauthorised": 401,
    "forbidden": 403,
    "unknown_model": 404,
    "not_found": 404,
    "slow_body": 408,
    "method": 405,
    "media_type": 415,
    "too_large": 413,  # a body over its limit, or more tokens than the queue takes at all
    "too_long": 413,  # a text longer than the model where the request wants no windows
    "overloaded": 429,
    "internal": 500,
    "unavailable": 503,  # still loading, draining, or the worker was lost
    "deadline": 504,
}
Reason = Literal[
    "invalid",
    "wrong_task",
    "unauthorised",
    "forbidden",
    "unknown_model",
    "not_found",
    "slow_body",
    "method",
    "media_type",
    "too_large",
    "too_long",
    "overloaded",
    "internal",
    "unavailable",
    "deadline",
]


class Refusal(Exception):
    """Why a request gets no result, in one sentence; `field` is the part of the body that is to blame."""

    def __init__(
        self, reason: Reason, message: str, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.field = field
        self.retry_after = retry_after  # seconds

    @property
    def status(self) -> int:
        """The status of HTTP; a dialect may have another."""
        return STATUS[self.reason]
