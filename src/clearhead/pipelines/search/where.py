"""Filters over what is known of documents: equality, ranges, one of several; for Python and for the command line."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from clearhead.errors import BadInput, require, short, valid_text

Scalar = str | int | float | bool
Metadata = Mapping[str, Scalar]
Operator = Literal["=", "<", "<=", ">", ">="]
Where = Mapping[str, Scalar | Sequence[Scalar] | Mapping[Operator, Scalar]] | str | Sequence[str]

_KEY = re.compile(r"""[^\s"'=<>!\x00-\x1f](?:[^"'=<>!\x00-\x1f]{0,61}[^\s"'=<>!\x00-\x1f])?""")
_WRITTEN = re.compile(r"\s*([^=<>]+?)(?:\s*(<=|>=|=|<|>)\s*(.*?)|\s+in\s+(.*?))\s*", re.DOTALL)
_EXACT = 2**53  # beyond it stores do not agree on which numbers are equal
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Condition:
    """What one key must be: equal to any of `values`, or on one side of the only one.

    A key that a document does not have, or has with a value of another kind, fits nothing.
    """

    key: str
    operator: Operator
    values: tuple[Scalar, ...]

    def fits(self, metadata: Metadata) -> bool:
        """Whether a document is one of those that are looked for."""
        if (own := metadata.get(self.key)) is None:
            return False
        return any(kind_of(own) == kind_of(one) and _holds(own, self.operator, one) for one in self.values)


def _holds(own: Scalar, operator: Operator, value: Scalar) -> bool:
    if operator == "=":
        return own == value
    if isinstance(own, str) or isinstance(value, str):
        less, more = str(own) < str(value), str(own) > str(value)
    else:
        less, more = own < value, own > value
    return {"<": less, "<=": not more, ">": more, ">=": not less}[operator]


def kind_of(value: Scalar) -> Literal["string", "number", "boolean"]:
    """The kind of a value, by JSON's names."""
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def conditions(where: Where | None) -> tuple[Condition, ...]:
    """Read a filter: {"lang": "de", "year": {">=": 2020}, "tag": ["a", "b"]}, or what `parse_where` reads; all hold.

    >>> from clearhead.pipelines.search.where import conditions
    >>> conditions({"year": {">=": 2020}})
    (Condition(key='year', operator='>=', values=(2020,)),)
    """
    if where is None:
        return ()
    if isinstance(where, str | list | tuple):
        return parse_where([where] if isinstance(where, str) else where)
    if not isinstance(where, Mapping):
        given = "a filter is a mapping such as {'year': {'>=': 2020}}, or a string such as 'year>=2020'"
        raise BadInput(f"{given}, not {short(where)}")
    found: list[Condition] = []
    for key, wanted in where.items():
        check_key(key)
        if isinstance(wanted, Mapping):
            for operator, value in wanted.items():
                known = get_args(Operator)
                require(operator in known, f"{short(operator)} compares nothing; choose {' '.join(known)}", BadInput)
                found.append(Condition(key, operator, (check_value(key, value),)))
        elif isinstance(wanted, list | tuple | set | frozenset):
            found.append(Condition(key, "=", tuple(check_value(key, value) for value in wanted)))
        else:
            found.append(Condition(key, "=", (check_value(key, wanted),)))
    return tuple(found)


def check_key(key: object) -> str:
    """Refuse a name that no filter could write."""
    fits = isinstance(key, str) and _KEY.fullmatch(key) is not None
    told = f"{short(key)} cannot be the key of a filter"
    require(fits, f"{told}; give up to 63 characters, without quotes and = < > !", BadInput)
    return str(key)


def check_value(key: str, value: object) -> Scalar:
    """A value as every store keeps and compares it; whole numbers that some would round are strings of their digits."""
    scalar = isinstance(value, str | int | float) and not (isinstance(value, float) and not math.isfinite(value))
    require(scalar, f"the value of {key} is {short(value)}; give a string, a number, True or False", BadInput)
    large = isinstance(value, int) and abs(value) >= _EXACT
    return valid_text(value) if isinstance(value, str) else str(value) if large else value  # type: ignore[return-value]


def parse_where(written: Iterable[str]) -> tuple[Condition, ...]:
    """Read filters as the command line has them: "lang=de", "year>=2020", "tag in a,b".

    What looks like a number is equal to the number, and to a string of these characters; quotes make it a string only.

    >>> from clearhead.pipelines.search.where import parse_where
    >>> parse_where(['lang in de,"fr"'])
    (Condition(key='lang', operator='=', values=('de', 'fr')),)
    """
    found: list[Condition] = []
    for one in written:
        match = _WRITTEN.fullmatch(one) if isinstance(one, str) else None
        if match is None:
            raise BadInput(f"{short(one)} is no filter; write KEY=VALUE, KEY>=VALUE (<, <=, >) or KEY in A,B")
        key, operator, value, several = match.groups()
        check_key(key)
        told = f"{short(one)} has two operators; write one, or quotes round a value that begins with one"
        require(not value or value[0] not in "=<>", told, BadInput)
        if operator in (None, "="):
            parts = [value] if operator else [part.strip() for part in several.split(",")]
            found.append(Condition(key, "=", tuple(same for part in parts for same in _readings(part))))
        else:
            require(bool(value), f"{short(one)} compares with nothing; write a value behind {operator}", BadInput)
            found.append(Condition(key, cast("Operator", operator), _readings(value)[:1]))
    return tuple(found)


def _readings(written: str) -> tuple[Scalar, ...]:
    """What a value may mean, the likeliest first."""
    if len(written) > 1 and written[0] == written[-1] == '"':
        return (written[1:-1],)
    if written in ("true", "false"):
        return (written == "true", written)
    number = as_number(written)
    return (written,) if number is None else (number, written)


def as_number(written: str) -> int | float | None:
    """The number that is written as JSON writes it; 007 and 1e999 are none."""
    if _NUMBER.fullmatch(written) is None:
        return None
    try:
        found = int(written) if written.lstrip("-").isdigit() else float(written)
    except ValueError:  # more digits than Python reads
        return None
    return found if abs(found) < _EXACT else None
