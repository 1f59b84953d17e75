"""Numbers that choose how a text is written: what is none is refused in one sentence."""

import math
from numbers import Integral, Real

from clearhead.errors import BadInput, require


def check_whole(name: str, value: object, *, least: int = 0, most: int | None = None) -> None:
    """Refuse what is no whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    require(whole, f"{name} must be a whole number, got {value!r}", BadInput)
    number = int(value)  # type: ignore[call-overload]
    low = f"{name} must not be negative, got {value}" if least == 0 else f"{name} must be at least {least}, got {value}"
    require(number >= least, low, BadInput)
    require(most is None or number <= most, f"{name} must be at most {most}, got {value}", BadInput)


def check_number(name: str, value: object) -> None:
    """Refuse what is no finite number."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    require(real and math.isfinite(value), f"{name} must be a finite number, got {value!r}", BadInput)  # type: ignore[arg-type]
