"""An entry of the studio: a page with its fields, its examples, and the call that answers it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from clearhead.errors import BadInput, NotFound, require
from clearhead.inside.page import View
from clearhead.pipelines.model import Model

LONGEST = 200_000  # characters of one text; a novel is cut up before it is read here


@dataclass(frozen=True, kw_only=True, slots=True)
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__} | {"choices": list(self.choices)}

    def parse(self, value: object) -> str | int | None:
        """Read the value of a request: a string, or what JSON has; nothing where it is empty."""
        if value is None or (isinstance(value, str) and not value.strip()):
            require(not self.required, f"{self.label!r} is empty; give {self.name}", BadInput)
            return self.default
        if self.kind == "number":
            return self._number(value)
        if not isinstance(value, str):
            raise BadInput(f"{self.name} must be a text, not {type(value).__name__}")
        require(len(value) <= LONGEST, f"{self.name} has {len(value)} characters; give at most {LONGEST}", BadInput)
        require(
            not self.choices or value in self.choices,
            f"{self.name}={value[:40]!r} is not known; choose {', '.join(self.choices)}",
            BadInput,
        )
        return value

    def _number(self, value: object) -> int:
        text = value.strip() if isinstance(value, str) else value
        number = int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 10 else text
        if not isinstance(number, int) or isinstance(number, bool) or not self.least <= number <= self.most:
            shown = str(value)[:40]
            raise BadInput(f"{self.name}={shown!r} is no number from {self.least} to {self.most}; give one")
        return number


def parse(fields: Sequence[Field], given: Mapping[str, object]) -> dict[str, Any]:
    """Read all fields; a name that is no field is refused, since it would do nothing."""
    known = [field.name for field in fields]
    for name in given:
        require(name in known, f"{name[:40]!r} is not asked for here; choose {', '.join(known) or 'nothing'}", BadInput)
    return {field.name: field.parse(given.get(field.name)) for field in fields}


def lines_of(text: str | None) -> list[str]:
    """Texts given one a line; empty lines are none."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


Needs = Literal["model", "maybe model", "runs", "nothing"]
Answer = View | dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What an entry is called with: the chosen model, the runs of this studio, and the values of the fields."""

    model: Model | None
    runs: Sequence[Path]
    values: Mapping[str, Any]

    @property
    def loaded(self) -> Model:
        """The model of an entry that needs one."""
        if self.model is None:
            raise NotFound("this page needs a model; choose one")
        return self.model

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Example:
    """A set of values that is one click away; for a model with skills, perhaps with one, or "" for the use's own."""

    label: str
    values: Mapping[str, str | int]
    skill: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One page. A view gives a `View`, a use gives what programs get as JSON."""

    kind: Literal["look", "use"]
    name: str
    title: str
    question: str
    call: Callable[[Given], Answer]
    needs: Needs = "model"
    head: str | None = None  # of the network, without which it cannot work
    fields: Sequence[Field] = ()
    examples: Sequence[Example] = field(default=())

    @property
    def path(self) -> str:
        """Where its page is; the same below /api gives JSON."""
        return f"/{self.kind}/{self.name}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: what the page needs to ask."""
        return {
            "kind": self.kind,
            "path": self.path,
            "title": self.title,
            "question": self.question,
            "needs": self.needs,
            "head": self.head,
            "fields": [one.to_dict() for one in self.fields],
            "examples": [{"label": one.label, "values": dict(one.values), "skill": one.skill} for one in self.examples],
        }
