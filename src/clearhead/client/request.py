"""A request to a service: its items, cut into parts that a service takes, and what is said once for all of them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from typing import Any, Generic, TypeVar, cast

from clearhead.errors import BadInput, require, valid_text
from clearhead.io import Progress, Record

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=Record)
Item = tuple[Any, ...]  # a value for each field
Many = str | Iterable[Any]

# A request holds so many characters: a few of them wait in the queue of a service at a time, which counts tokens, and
# none comes near its limit for bodies. A text of more is sent alone.
CHARACTERS = 32_000
CHARACTERS_OF_NOTHING = 8  # an empty text has its special tokens
_ITEMS = 1000
WRITTEN = 64  # texts that are written for one request, since each takes its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Result]):
    """A use of many items, and what is said once for all of them."""

    use: str  # of the route /v1/{use}
    columns: Columns
    said: Mapping[str, Any]
    result: Callable[[Any], Result | None]  # of one item's answer; None where another is needed for it
    progress: Progress | None = None
    most: int = _ITEMS  # in one request
    count: Callable[[Sequence[Item]], int] = len  # of what progress is told

    @property
    def one(self) -> bool:
        """Whether one item was given, and not a list of one."""
        return isinstance(self.columns.given, str)

    @property
    def listed(self) -> bool:
        """Whether a list of results is wanted."""
        return isinstance(self.columns.given, Sized)

    def body(self, part: Sequence[Item]) -> dict[str, Any]:
        """The body of the request for some of the items."""
        values = {name: [item[i] for item in part] for i, name in enumerate(self.columns.names)}
        return {**values, **self.columns.said, **self.said}

    def parts(self) -> Iterator[list[Item]]:
        """Lists of items, each for one request."""
        parts = _Parts(self)
        for item in cast("Iterable[Item]", self.columns.items):
            yield from parts.add(item)
        yield from parts.rest()

    async def parts_later(self) -> AsyncIterator[list[Item]]:
        """The same of items that may come asynchronously."""
        parts = _Parts(self)
        if isinstance(self.columns.items, AsyncIterable):
            async for item in self.columns.items:
                for part in parts.add(item):
                    yield part
        else:
            for item in self.columns.items:
                for part in parts.add(item):
                    yield part
        for part in parts.rest():
            yield part


class _Parts:
    """Gathers items until there are as many as one request holds."""

    def __init__(self, asked: Asked[Any]) -> None:
        # a text that is said once is read with every item
        shared = [*asked.columns.said.values(), asked.said.get("labels", ())]
        self._each = _characters(shared) + CHARACTERS_OF_NOTHING
        self._most = asked.most
        self._part: list[Item] = []
        self._size = 0

    def add(self, item: Item) -> Iterator[list[Item]]:
        size = _characters(item) + self._each
        if self._part and (self._size + size > CHARACTERS or len(self._part) == self._most):
            yield from self.rest()
        self._part.append(item)
        self._size += size

    def rest(self) -> Iterator[list[Item]]:
        if self._part:
            yield self._part
        self._part, self._size = [], 0


def _characters(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_characters, value)) if isinstance(value, Sequence) else 0


# ---- what every use does with what it is given --------------------------------------------------------------------


def as_json(model: str | None, skill: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as JSON has them, and the id of the model: NAME, or NAME:SKILL."""
    said = {name: _plain(name, value) for name, value in options.items() if value is not None}
    named = model if skill is None else f"{model or _BUILT_IN}:{skill}"
    return said if named is None else {**said, "model": named}


_BUILT_IN = "built-in"  # what a service calls the encoder in the package
_ENDLESS = 1e30  # JSON has no infinity; to no logit and no score does it make a difference


def _plain(name: str, value: Any) -> Any:
    if hasattr(value, "tolist"):  # a number or an array of NumPy's
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        require(not math.isnan(value), f"{name}=nan is no number", BadInput)
        return math.copysign(_ENDLESS, value)
    if isinstance(value, str | int | float):
        return value
    return [_plain(name, one) for one in value]


def _column(given: Any) -> Iterator[Any] | AsyncIterator[Any]:
    """The values that were given, of one alone one; refuse what holds none before anything is sent."""
    if isinstance(given, str):
        return iter([given])
    if isinstance(given, AsyncIterable):
        return aiter(given)
    several = hasattr(given, "__iter__") and not isinstance(given, bytes | bytearray | Mapping)
    require(several, f"give a text or a list of texts, not {type(given).__name__}", BadInput)
    told = f"give one column of the {type(given).__name__}, such as table['text'], not all of it"
    require(not hasattr(given, "columns"), told, BadInput)
    return iter(given)


@dataclass(frozen=True, slots=True)
class Columns:
    """The items that were given, each with a value for every one of the `names`, and texts that all of them share."""

    names: tuple[str, ...]
    items: Iterable[Item] | AsyncIterable[Item]
    given: object  # one text has one result; a list, a list; what is neither, an iterator
    said: Mapping[str, str] = field(default_factory=dict)


def of_texts(given: Any, name: str = "text") -> Columns:
    """One column: texts, or what a use takes in their place."""
    column = _column(given)
    if isinstance(column, AsyncIterator):
        return Columns((name,), ((as_text(one),) async for one in column), given)
    return Columns((name,), ((as_text(one),) for one in column), given)


def of_pairs(first: tuple[str, Any], second: tuple[str, Any]) -> Columns:
    """Two columns, each with its name, of texts: one with many, many with one, or as many of both."""
    (one, left), (other, right) = first, second
    if isinstance(right, str):
        return replace(of_texts(left, one), said={other: valid_text(right)})
    if isinstance(left, str):
        return replace(of_texts(right, other), said={one: valid_text(left)})
    lefts, rights = _column(left), _column(right)
    if isinstance(lefts, AsyncIterator) or isinstance(rights, AsyncIterator):
        raise BadInput("of two columns, both must be there at once; give an asynchronous iterator beside one text")
    return Columns((one, other), _one_by_one(lefts, rights), left)


def _one_by_one(lefts: Iterator[Any], rights: Iterator[Any]) -> Iterator[Item]:
    for left, right in zip_longest(lefts, rights):
        both = left is not None and right is not None
        require(both, "two lists must be equally long to be paired; one has ended before the other", BadInput)
        yield as_text(left), as_text(right)


def of_lists(
    names: tuple[str, str], given: Any, several: Any, cut: Callable[[Item], Iterable[Item]] = lambda item: (item,)
) -> Columns:
    """A text with a list of texts, or many such pairs; `cut` may make several items of one."""
    single = isinstance(given, str)
    told = f"give a {names[0]} and its {names[1]}, or a list of both"
    require(single == (several is not None), told, BadInput)
    column = _column([(given, several)] if single else given)
    if isinstance(column, AsyncIterator):
        return Columns(names, (part async for one in column for part in cut(_pair(one, names))), given)
    return Columns(names, (part for one in column for part in cut(_pair(one, names))), given)


def _pair(given: Any, names: tuple[str, str]) -> Item:
    pair = isinstance(given, tuple | list) and len(given) == 2 and not isinstance(given[1], str)
    require(pair, f"give pairs ({', '.join(names)}), not {given!r}", BadInput)
    return as_text(given[0]), list(map(as_text, given[1]))


def as_text(given: Any) -> Any:
    """A text, or a list of texts, as JSON has it; a cell of an arrow column is Python's own."""
    value = given.as_py() if hasattr(given, "as_py") else given
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, tuple | list):
        return [as_text(one) for one in value]
    raise BadInput(f"A text must be a string, not {type(value).__name__}.")


def record(kind: type[Kind], found: Mapping[str, Any]) -> Kind:
    """A result whose fields are keys of the answer."""
    return kind(**{spec.name: found[spec.name] for spec in fields(kind)})  # type: ignore[arg-type]


def records(kind: type[Kind], found: Iterable[Mapping[str, Any]]) -> tuple[Kind, ...]:
    """The results of a list in the answer."""
    return tuple(record(kind, one) for one in found)
