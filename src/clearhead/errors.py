"""Every error a user can cause, and the checks that raise them.

The text of an error says what is wrong, shows the value, and says what to do.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sized
from dataclasses import fields
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

_MAY_BE_ZERO = {"pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "type_vocab_size"}
_LARGEST = 2**24  # far above any model; beyond it a damaged configuration overflows the size of a tensor
_SURROGATE = re.compile("[\ud800-\udfff]")


class ClearheadError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one line and exits with 2.

    >>> try:
    ...     model.fill("Nothing is hidden here.")
    ... except clearhead.ClearheadError as error:
    ...     print(error)
    There is no mask in 'Nothing is hidden here.'; write [MASK] where a word is wanted.
    """


class BadInput(ClearheadError, ValueError):
    """An argument or a text that cannot be worked with."""


class InputTooLong(BadInput):
    """More tokens than the model has positions."""


class BadConfig(ClearheadError, ValueError):
    """A configuration value that is out of range, inconsistent or unknown."""


class BadCheckpoint(ClearheadError):
    """A checkpoint folder that is incomplete, damaged, or does not fit its own configuration."""


class UnsafeCheckpoint(BadCheckpoint):
    """A file that could run code when opened, such as a pickle. It is never opened."""


class NotFound(ClearheadError, LookupError):
    """A model, file, head or name that is not there, or not there while offline."""


class WrongTask(ClearheadError):
    """A use that the loaded checkpoint has no head for."""


def require(condition: bool, message: str, error: type[ClearheadError] = BadConfig) -> None:
    """Raise `error(message)` unless the condition holds."""
    if not condition:
        raise error(message)


def valid_text(text: str) -> str:
    """Give the text with each half of a surrogate pair, which is no character, replaced by U+FFFD: offsets stay."""
    require(isinstance(text, str), f"A text must be a string, not {type(text).__name__}.", BadInput)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def check_config(config: Any) -> None:
    """Check sizes (positive), rates (0 ≤ p < 1) and other numbers (positive, finite) of a model's configuration."""
    for spec in fields(config):
        value = getattr(config, spec.name)
        if type(value) is int:
            least = 0 if spec.name in _MAY_BE_ZERO else 1
            require(value >= least, f"{spec.name} must be at least {least}, got {value}")
            require(value <= _LARGEST, f"{spec.name} must be at most {_LARGEST}, got {value}")
        elif type(value) is float and "drop" in spec.name:
            require(0 <= value < 1, f"{spec.name} must be from 0 up to but not including 1, got {value}")
        elif type(value) is float:
            require(0 < value < float("inf"), f"{spec.name} must be positive and finite, got {value}")
    pad, size = config.pad_token_id, config.vocab_size
    require(pad is None or pad < size, f"pad_token_id {pad} must be less than vocab_size {size}")


def check_heads(width: int, heads: int, names: tuple[str, str] = ("hidden_size", "num_attention_heads")) -> None:
    """Check that heads of equal width fill the model's width; `names` are the family's for the two."""
    require(width % heads == 0, f"{names[0]} {width} must be a multiple of {names[1]} {heads}")


def typed(value: Any, hint: Any, name: str) -> Any:
    """Give the value back if it is of the hinted type (a plain type, a Literal, a tuple, or a union)."""
    allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in allowed and type(value) is int and abs(value) < 2**53:  # a float holds these exactly
        return float(value)
    expected: list[str] = []
    for kind in allowed:
        inner = get_args(kind)
        if get_origin(kind) is tuple and isinstance(value, list | tuple) and len(value) == len(inner):
            return tuple(typed(item, own, name) for item, own in zip(value, inner, strict=True))
        if type(value) is kind or (get_origin(kind) is Literal and value in inner):
            return value
        if get_origin(kind) is Literal:
            expected += map(repr, inner)
        elif kind is not NoneType:
            expected.append(f"of type {kind if inner else kind.__name__}")
    raise BadConfig(f"{name} = {value!r} is not {' or '.join(expected)}")


def check_lengths(gold: Sized, predicted: Sized, what: str = "predictions") -> None:
    """Refuse inputs of different lengths, and empty ones: a mean over nothing has no value."""
    require(len(gold) > 0, f"There are no gold items to compare the {len(predicted)} {what} with.", BadInput)
    counts = f"There are {len(gold)} gold items and {len(predicted)} {what}"
    require(len(gold) == len(predicted), f"{counts}; give one for each, in the same order.", BadInput)


def check_ids(wanted: Iterable[str], given: Collection[str], what: str) -> None:
    """Refuse a mapping that lacks an id."""
    if missing := [name for name in wanted if name not in given]:
        raise BadInput(f"{len(missing)} ids have no {what}, the first is {missing[0]!r}; give one for each id.")


Callee = TypeVar("Callee")


def renamed(**names: str) -> Callable[[Callee], Callee]:
    """Let a function, or a class when it is made, take keywords by their `old="new"` names for one more release."""

    def decorate(use: Callee) -> Callee:
        target: Any = use.__init__ if isinstance(use, type) else use  # type: ignore[misc]

        @wraps(target)
        def call(*args: Any, **options: Any) -> Any:
            for old in names.keys() & options.keys():
                new = names[old]
                require(new not in options, f"{old} and {new} are one option; give {new}", BadInput)
                message = f"{old} is now called {new}; the old name goes with the next release"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                options[new] = options.pop(old)
            return target(*args, **options)

        if isinstance(use, type):
            use.__init__ = call  # type: ignore[misc]
            return use
        return cast("Callee", call)

    return decorate
