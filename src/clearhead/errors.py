"""Every error a user can cause, and the checks that raise them.

The text of an error says what is wrong, shows the value, and says what to do.
"""

import re
import reprlib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import isfunction, signature
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

_MAY_BE_ZERO = {
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    *("type_vocab_size", "conv_kernel_size", "position_buckets"),
}
_LARGEST = 2**24  # far above any model; beyond it a damaged configuration overflows the size of a tensor
_DEEPEST = 1024  # layers; a thousand is the most that was ever trained
_LONGEST = 2000  # characters of a message
_SURROGATE = re.compile("[\ud800-\udfff]")


class ClearheadError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one line and exits with 2.

    >>> try:
    ...     model.fill("Nothing is hidden here.")
    ... except clearhead.ClearheadError as error:
    ...     print(error)
    There is no mask in 'Nothing is hidden here.'; write [MASK] where a word is wanted.
    """

    def __init__(self, message: str = "") -> None:
        # a file may hold anything, and a sentence shows what it holds: one line, and no page of it
        text = message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
        super().__init__(text.replace("\n", " "))


class BadInput(ClearheadError, ValueError):
    """An argument or a text that cannot be worked with."""


class InputTooLong(BadInput):
    """More tokens than the model has positions."""


class UnknownOption(BadInput, TypeError):
    """A keyword that a function does not have; the sentence names the nearest that it has."""


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


class Unavailable(ClearheadError):
    """A service that is not there, is overloaded, or did not answer in time."""


def require(condition: bool, message: str, error: type[ClearheadError] = BadConfig) -> None:
    """Raise `error(message)` unless the condition holds."""
    if not condition:
        raise error(message)


@contextmanager
def explained(error: type[ClearheadError], message: str) -> Iterator[None]:
    """Turn whatever a library raises into `error`: `message` with the reason in the place of "{}".

    A library in Rust panics where it did not expect what a file holds; to Python that is no Exception.
    """
    try:
        yield
    except ClearheadError:
        raise
    except BaseException as wrong:
        if not isinstance(wrong, Exception) and type(wrong).__name__ != "PanicException":
            raise
        raise error(message.replace("{}", reason(wrong))) from None


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
            most = _DEEPEST if "layer" in spec.name else _LARGEST
            require(value <= most, f"{spec.name} must be at most {most}, got {value}")
        elif type(value) is float and "drop" in spec.name:
            require(0 <= value < 1, f"{spec.name} must be from 0 up to but not including 1, got {value}")
        elif type(value) is float:
            require(0 < value < float("inf"), f"{spec.name} must be positive and finite, got {value}")
    pad, size = config.pad_token_id, config.vocab_size
    require(pad is None or pad < size, f"pad_token_id {pad} must be less than vocab_size {size}")


def check_heads(width: int, heads: int, names: tuple[str, str] = ("hidden_size", "num_attention_heads")) -> None:
    """Check that heads of equal width fill the model's width; `names` are the family's for the two."""
    require(width % heads == 0, f"{names[0]} {width} must be a multiple of {names[1]} {heads}")


Callee = TypeVar("Callee")


def filled(kind: type[Callee], content: Any, where: str, error: type[ClearheadError] = BadConfig) -> Callee:
    """Make a dataclass of a JSON object that was read at `where`: its types are the schema, and every key is known."""
    require(isinstance(content, dict), f"{where} is {short(content)}, not a JSON object", error)
    hints, specs = get_type_hints(kind), {spec.name: spec for spec in fields(cast(Any, kind))}
    for name in content:
        require(name in specs, f"{where}: unknown key {short(name)}; known are {', '.join(specs)}", error)
    for name, spec in specs.items():
        needed = spec.default is MISSING and spec.default_factory is MISSING
        require(name in content or not needed, f"{where} has no {name}; copy the file again", error)
    try:
        return kind(**{name: typed(value, hints[name], f"{where}: {name}") for name, value in content.items()})
    except BadConfig as wrong:
        raise error(str(wrong)) from None


def reason(error: BaseException) -> str:
    """What a library says of an error, in one line."""
    return short(str(error))[1:-1]


def short(value: object) -> str:
    """What a value looks like, for a sentence: no longer than a line, however much a file holds."""
    shown = _brief.repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


_SHOWN = 200
_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = _brief.maxlong = _SHOWN
_brief.maxdict = _brief.maxlist = _brief.maxtuple = 12


def typed(value: Any, hint: Any, name: str) -> Any:
    """Give the value back if it is of the hinted type: a plain type, a Literal, a tuple, list or dict, a dataclass.

    Unions of these, too.
    """
    if hint is Any:
        return value
    allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in allowed and type(value) is int and abs(value) < 2**53:  # a float holds these exactly
        return float(value)
    expected: list[str] = []
    for kind in allowed:
        inner = get_args(kind)
        if get_origin(kind) in (list, tuple) and isinstance(value, list | tuple):
            endless = get_origin(kind) is list or inner[1:] == (...,)
            if endless or len(value) == len(inner):
                own = [inner[0]] * len(value) if endless else inner
                return get_origin(kind)(typed(*pair, name) for pair in zip(value, own, strict=True))
        if get_origin(kind) is dict and isinstance(value, dict):
            return {key: typed(item, inner[1], name) for key, item in value.items()}
        if is_dataclass(kind) and isinstance(value, dict):
            return filled(cast(Any, kind), value, name)
        if type(value) is kind or (get_origin(kind) is Literal and value in inner):
            return value
        if get_origin(kind) is Literal:
            expected += map(repr, inner)
        elif kind is not NoneType:
            expected.append(f"of type {kind if inner else kind.__name__}")
    raise BadConfig(f"{name} = {short(value)} is not {' or '.join(expected)}")


def check_lengths(gold: Sized, predicted: Sized, what: str = "predictions") -> None:
    """Refuse inputs of different lengths, and empty ones: a mean over nothing has no value."""
    require(len(gold) > 0, f"There are no gold items to compare the {len(predicted)} {what} with.", BadInput)
    counts = f"There are {len(gold)} gold items and {len(predicted)} {what}"
    require(len(gold) == len(predicted), f"{counts}; give one for each, in the same order.", BadInput)


def check_ids(wanted: Iterable[str], given: Collection[str], what: str) -> None:
    """Refuse a mapping that lacks an id."""
    if missing := [name for name in wanted if name not in given]:
        raise BadInput(f"{len(missing)} ids have no {what}, the first is {missing[0]!r}; give one for each id.")


def near(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: the nearest known one, or all of them."""
    from difflib import get_close_matches  # here, since few runs misspell

    there = list(known)
    meant = get_close_matches(name.lower(), there, n=1, cutoff=0.6)
    return f"did you mean {meant[0]}?" if meant else f"there are {', '.join(there)}" if there else "there are none"


def check_options(given: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse the name of an option that is not known; `what` is what it was given to."""
    for name in given:
        require(name in known, f"{name} is no option of {what}; {near(name, known)}", UnknownOption)


def keywords(use: Callee) -> Callee:
    """Let a function, or all public methods of a class and its making, name the option that was meant by a wrong one.

    What takes any keyword (`**options`) checks its own; what has no option is left as it is.
    """
    if isinstance(use, type):
        for name, member in list(vars(use).items()):
            plain = member.__func__ if isinstance(member, classmethod) else member
            if (name == "__init__" or not name.startswith("_")) and isfunction(plain):
                checked = keywords(plain)
                setattr(use, name, classmethod(checked) if isinstance(member, classmethod) else checked)
        return use
    target: Any = use
    parameters = signature(target).parameters.values()
    optional = any(one.kind is one.KEYWORD_ONLY or one.default is not one.empty for one in parameters)
    if not optional or any(one.kind is one.VAR_KEYWORD for one in parameters):
        return use
    named = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY and one.name not in ("self", "cls")]
    known = {*named, *getattr(target, "older_names", ())}
    owner = target.__qualname__.removesuffix(".__init__")

    @wraps(target)
    def call(*args: Any, **options: Any) -> Any:
        if options and not options.keys() <= known:
            check_options(options.keys() - known, named, owner)
        return target(*args, **options)

    return cast("Callee", call)


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

        call.older_names = names  # type: ignore[attr-defined]  # which `keywords` lets pass
        if isinstance(use, type):
            use.__init__ = call  # type: ignore[misc]
            return use
        return cast("Callee", call)

    return decorate
