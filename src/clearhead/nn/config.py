"""Checks that every configuration needs."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from clearhead.errors import BadConfig, require
from clearhead.nn.blocks import activation

_MAY_BE_ZERO = {"pad_token_id", "bos_token_id", "eos_token_id", "type_vocab_size"}
_LARGEST = 2**24  # far above any model; beyond it a damaged configuration overflows the size of a tensor


def check_config(config: Any, *activations: str) -> None:
    """Check sizes (positive), rates (0 ≤ p < 1), other numbers (positive, finite) and the activations named."""
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
    for name in activations:
        activation(name)
    pad, size = config.pad_token_id, config.vocab_size
    require(pad is None or pad < size, f"pad_token_id {pad} must be less than vocab_size {size}")


def check_heads(width: int, heads: int, names: tuple[str, str] = ("hidden_size", "num_attention_heads")) -> None:
    """Check that heads of equal width fill the model's width; `names` are the family's for the two."""
    require(width % heads == 0, f"{names[0]} {width} must be a multiple of {names[1]} {heads}")


def typed(value: Any, hint: Any, name: str) -> Any:
    """Give the value back if it is of the hinted type (a plain type, a Literal, a tuple, or a union)."""
    allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is None and NoneType in allowed:
        return None
    if float in allowed and type(value) is int and abs(value) < 2**53:  # a float holds these exactly
        return float(value)
    for kind in allowed:
        if get_origin(kind) is tuple and isinstance(value, list | tuple) and len(value) == len(get_args(kind)):
            return tuple(typed(item, inner, name) for item, inner in zip(value, get_args(kind), strict=True))
    choices = [choice for kind in allowed if get_origin(kind) is Literal for choice in get_args(kind)]
    if value in choices:
        return value
    if type(value) not in allowed:
        kinds = [
            str(kind) if get_origin(kind) else kind.__name__
            for kind in allowed
            if kind is not NoneType and get_origin(kind) is not Literal
        ]
        expected = " or ".join([*(f"of type {kind}" for kind in kinds), *(repr(choice) for choice in choices)])
        raise BadConfig(f"{name} = {value!r} is not {expected}")
    return value
