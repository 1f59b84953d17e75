"""An entry of the studio: a page with its fields, its examples, and the call that answers it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from clearhead.errors import NotFound
from clearhead.inside.view import View
from clearhead.pipelines.model import Model
from clearhead.studio.fields import Field

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
