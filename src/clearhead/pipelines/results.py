"""What the uses give: a dataclass for each kind of result. Without torch, since clients of a service use them too."""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from clearhead.io import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Prediction(Record):
    """A token for a mask (masks are counted from 0), its probability and id, and the text with it in its place."""

    token: str
    score: float
    sequence: str
    mask: int
    id: int


@dataclass(frozen=True, slots=True)
class Filled(Record):
    """The best predictions for the first mask, then those for the second, and so on."""

    predictions: tuple[Prediction, ...]


@dataclass(frozen=True, slots=True)
class Classes(Record):
    """The best label with its score, and the scores of all labels (or of the best `top_k`), the best first.

    Scores are probabilities that sum to 1; with several labels at once, each is one by itself; of a regression, or a
    model with a single label, the score is the number itself.
    """

    label: str
    score: float
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class NextSentence(Record):
    """Whether the second text follows the first, and the probability that it does."""

    follows: bool
    probability: float


@dataclass(frozen=True, slots=True)
class Labelled(Record):
    """A slice of the text with its label and score: text[start:end]."""

    text: str
    label: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class LabelledTable:
    """Slices of a text before anybody looks at them: a row for each, `start`, `end`, `label` (of `names`), `score`.

    An object for each word is most of what tagging in bulk takes beside the network.
    """

    text: str
    names: Sequence[str]
    rows: "NDArray[np.void]"

    def labelled(self) -> tuple[Labelled, ...]:
        """The slices as objects.

        A frozen dataclass takes three times as long to make by its own constructor, which sets one field after another
        in Python; of a column of objects, each field is set for all of them by a loop in C.
        """
        made = [*map(object.__new__, repeat(Labelled, len(self.rows)))]
        for spec, column in zip(fields(Labelled), zip(*self._fields(), strict=True), strict=False):
            deque(map(getattr(Labelled, spec.name).__set__, made, column), maxlen=0)
        return tuple(made)

    def to_dicts(self) -> list[dict[str, Any]]:
        """As JSON has them."""
        names = [spec.name for spec in fields(Labelled)]
        return [dict(zip(names, row, strict=True)) for row in self._fields()]

    def _fields(self) -> Iterator[tuple[str, str, int, int, float]]:
        text, names = self.text, self.names
        return ((text[i:j], names[label], i, j, score) for i, j, label, score in self.rows.tolist())


class _WithTables(Record):
    """A place beside a result's fields, for these as they are before anybody looks at them."""

    __slots__ = ("_tables",)

    _tables: dict[str, LabelledTable]  # by the field


@dataclass(frozen=True, slots=True)
class Tagged(_WithTables):
    """Every word with its label, and the entities: neighbouring words (or pieces) of one kind, "O" left out.

    Plain tags, such as parts of speech, make no entities: no word is outside.
    Texts are verbatim slices, text[start:end]; of a list of words, offsets count characters of " ".join(words).
    """

    words: tuple[Labelled, ...]
    entities: tuple[Labelled, ...]

    @classmethod
    def of_tables(cls, words: LabelledTable, entities: LabelledTable) -> Self:
        """The same, whose words and entities are made when they are first looked at."""
        made = object.__new__(cls)
        object.__setattr__(made, "_tables", {"words": words, "entities": entities})
        return made

    def __getattr__(self, name: str) -> Any:  # is asked for what is not there: the fields, and what nobody knows
        if name not in ("words", "entities"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        found = self._tables[name].labelled()
        object.__setattr__(self, name, found)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        tables = getattr(self, "_tables", None)
        if tables is not None:
            return {name: tables[name].to_dicts() for name in ("entities", "words")}
        return {name: [one.to_dict() for one in getattr(self, name)] for name in ("entities", "words")}


@dataclass(frozen=True, slots=True)
class Candidate(Record):
    """A possible answer: context[start:end], its probability, and its logit (start + end)."""

    text: str
    start: int
    end: int
    score: float
    logit: float


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """The best answer, or None for text, start and end where the model abstains; `score` is its probability.

    `candidates` are the n best spans, also when it abstains. `margin` is by how much "no answer" beats the best span:
    it abstains where that is more than the threshold.
    """

    text: str | None
    start: int | None
    end: int | None
    score: float
    null_score: float
    candidates: tuple[Candidate, ...] = ()

    @property
    def margin(self) -> float:
        """The logit of "no answer" less that of the best span; infinite without any span."""
        return self.null_score - self.candidates[0].logit if self.candidates else math.inf

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = Record.to_dict(self)  # slots make another class of this one, which super() does not know
        return {"answer": found.pop("text"), **found}


@dataclass(frozen=True, slots=True)
class FoundCandidate(Candidate):
    """A possible answer in one of many documents: `source` names it, and start and end are offsets in it."""

    source: str = ""


@dataclass(frozen=True, slots=True)
class FoundAnswer(Answer):
    """The best answer in many documents; `source` names the document that start and end are offsets in.

    The score is the probability of the passage to be the right one times that of the answer in it.
    """

    candidates: tuple[FoundCandidate, ...] = ()
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Choice(Record):
    """The chosen candidate, where it stands among the given ones, and the probability of each, in the given order."""

    text: str
    index: int
    score: float
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Hit(Record):
    """A passage that was found: a verbatim slice, document[start:end], of the document that `source` names.

    The score is how probable it is that the passage is what was looked for (hybrid, and all that is reranked), a cosine
    (vectors), or BM25's, as the search was asked. `metadata` is what is known of the document, if anything is.
    """

    text: str
    source: str
    start: int
    end: int
    score: float
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {name: getattr(self, name) for name in ("text", "source", "start", "end", "score")}
        return {**found, "metadata": dict(self.metadata)} if self.metadata else found


@dataclass(frozen=True, slots=True)
class Reranked(Record):
    """A passage, where it stands among the given ones, and the probability that it is what the query looks for."""

    text: str
    index: int
    score: float


@dataclass(frozen=True, slots=True)
class Sentence(Record):
    """A verbatim slice of the text, text[start:end], and how central it is: 1 is the average."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """The chosen sentences, in the order of the text."""

    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The sentences with a space between them."""
        return " ".join(sentence.text for sentence in self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"summary": self.text, "sentences": [sentence.to_dict() for sentence in self.sentences]}


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A chunk of the text, what was written for it, and its score as in `Written`."""

    source: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Rewritten(Record):
    """A text written anew, such as its translation, and the parts it was put together from."""

    text: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Written(Record):
    """New text. `score` is its log probability, of beams for a length of one; `ended`: not cut off by the limit."""

    text: str
    score: float
    ended: bool
    tokens: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"generated": self.text, "score": self.score, "ended": self.ended}

    def __str__(self) -> str:
        return self.text
