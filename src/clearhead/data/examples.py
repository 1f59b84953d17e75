"""What fine-tuning learns from: one record per kind of task, and the labels of a task.

`where` says where an example was read, as in "dev.csv, line 7", for messages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, require

_SHOWN = 20  # labels in a message

Label = str | float | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TextExample:
    """One text or two, and a class, a number, several classes, or nothing known."""

    text: str
    pair: str | None = None
    label: Label = None
    where: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class WordsExample:
    """A sentence as words, each with a tag, or several sentences; no tags where nothing is known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    opens: bool = False  # whether a document begins with this sentence
    sentences: tuple[int, ...] = ()  # how many words each has, where there are several
    where: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a context, and the answers: their text and the character where it starts."""

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()
    impossible: bool = False
    where: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context, what may follow it, and which of these is right; None where nothing is known."""

    context: str
    choices: tuple[str, ...]
    label: int | None = None
    where: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PairExample:
    """Two texts that mean the same, or the degree to which they do; and one that does not, if it is known."""

    first: str
    second: str
    score: float | None = None
    where: str = field(default="", compare=False, repr=False)
    negative: str | None = None


Example = TextExample | WordsExample | QuestionExample | ChoiceExample | PairExample


@dataclass(frozen=True)
class Labels:
    """Names in the order of their ids."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(bool(self.names), "There are no labels; name the column that holds them.", BadInput)
        require(len(set(self.names)) == len(self.names), f"A label is named twice in {list(self.names)}.", BadInput)

    @classmethod
    def of(cls, labels: Iterable[str]) -> Self:
        """Gather the labels that occur: in the order of numbers if all are numbers, else of the alphabet."""
        found = set(labels)
        return cls(tuple(sorted(found, key=_number) if all(map(_is_number, found)) else sorted(found)))

    def __len__(self) -> int:
        return len(self.names)

    def ids(self, labels: Sequence[str], where: str = "The data") -> NDArray[np.int64]:
        """Give the ids of labels; one that was not among the training labels is an error."""
        unknown = next((label for label in labels if label not in self._ids), None)
        if unknown is not None:
            shown = ", ".join(map(repr, self.names[:_SHOWN]))
            more = f" and {len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
            fault = f"the label {unknown!r}, which the training data has not"
            raise BadInput(f"{where} has {fault}; known are {shown}{more}.")
        return np.array([self._ids[label] for label in labels], dtype=np.int64)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}


def _number(label: str) -> tuple[float, str]:
    return float(label), label


def _is_number(label: str) -> bool:
    try:
        return float(label) == float(label)  # "nan" has no place among numbers
    except ValueError:
        return False
