"""What a page of the studio is: its fields, its examples, and the function that answers it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from clearhead.errors import BadInput, require
from clearhead.inside.page import View
from clearhead.studio.examples import EXAMPLES

MAX_CHARACTERS = 200_000  # of one text; a novel is cut up before it is read here
Answer = View | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a page: "line", "text" (several lines), "number", or a choice of texts."""

    name: str
    label: str
    kind: Literal["line", "text", "number"] = "line"
    required: bool = False
    default: str | int | None = None
    choices: Sequence[str] = ()
    least: int = 0
    most: int = 100

    def parse(self, value: object) -> str | int | None:
        """Read the value of a request, a string or what JSON has; an empty one is the default."""
        if value is None or (isinstance(value, str) and not value.strip()):
            require(not self.required, f"{self.label!r} is empty; give {self.name}", BadInput)
            return self.default
        if self.kind == "number":
            return self._number(value)
        if not isinstance(value, str):
            raise BadInput(f"{self.name} must be a text, not {type(value).__name__}")
        size = len(value)
        require(size <= MAX_CHARACTERS, f"{self.name} has {size} characters; give at most {MAX_CHARACTERS}", BadInput)
        unknown = f"{self.name}={value[:40]!r} is not known; choose {', '.join(self.choices)}"
        require(not self.choices or value in self.choices, unknown, BadInput)
        return value

    def _number(self, value: Any) -> int:
        # a number of JSON, or the digits of a form; True is no number, though Python says so
        digits = isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value.strip())
        if not (digits or type(value) is int) or not self.least <= int(value) <= self.most:
            shown = str(value)[:40]
            raise BadInput(f"{self.name}={shown!r} is no number from {self.least} to {self.most}; give one")
        return int(value)


def parse(fields: Sequence[Field], given: Mapping[str, object]) -> dict[str, Any]:
    """Read all fields; a name that is no field is refused, since it would do nothing."""
    known = [field.name for field in fields]
    for name in given:
        require(name in known, f"{name[:40]!r} is not asked for here; choose {', '.join(known) or 'nothing'}", BadInput)
    return {field.name: field.parse(given.get(field.name)) for field in fields}


@dataclass(frozen=True, slots=True)
class Entry:
    """One page: below /look it gives a `View`, below /use what programs get as JSON.

    `call` takes the model or the run folders, whichever the page needs, then the values of the fields by name.
    """

    path: str  # the same below /api gives JSON
    question: str
    call: Callable[..., Answer]
    fields: Sequence[Field] = ()
    title: str = ""  # else the last part of the path
    needs: Literal["model", "two models", "maybe model", "runs", "nothing"] = "model"
    head: str | None = None  # of the network, without which it cannot work
    use: str | None = None  # for which there is a built-in model of its own
    tokens: int | None = None  # that it shows of a text
    # for which use, by the values, a model with skills takes one of them if none is chosen
    skilled: Callable[[Mapping[str, Any]], str | None] = lambda values: None

    @property
    def kind(self) -> str:
        """Where it stands in the menu: "look" or "use", by its path."""
        return self.path.split("/")[1]

    @property
    def examples(self) -> list[dict[str, Any]]:
        """What is one click away: a label, the values, perhaps a skill or a model, and what the lectures expect."""
        return EXAMPLES.get(self.path, [])

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: what the page needs to ask."""
        return {
            "kind": self.kind,
            "path": self.path,
            "title": self.title or self.path.rsplit("/", 1)[-1].capitalize(),
            "question": self.question,
            "needs": self.needs,
            "head": self.head,
            "use": self.use,
            "tokens": self.tokens,
            "skilled": self.skilled({}),
            "fields": [asdict(field) for field in self.fields],
            "examples": [{"skill": None, "model": None, "expects": None, **example} for example in self.examples],
        }
