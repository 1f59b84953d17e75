"""Checks that every family's configuration needs."""

from dataclasses import fields
from typing import Any

from clearhead.errors import require
from clearhead.nn.blocks import activation

_MAY_BE_ZERO = {"pad_token_id", "type_vocab_size"}
_LARGEST = 2**24  # far above any model; beyond it a damaged configuration overflows the size of a tensor


def check_config(config: Any, *activations: str) -> None:
    """Check sizes (positive), rates (0 ≤ p < 1), other numbers (positive, finite) and the activations named."""
    for spec in fields(config):
        value = getattr(config, spec.name)
        if type(value) is int:
            least = 0 if spec.name in _MAY_BE_ZERO else 1
            require(value >= least, f"{spec.name} must be at least {least}, got {value}")
            require(value <= _LARGEST, f"{spec.name} must be at most {_LARGEST}, got {value}")
        elif type(value) is float and "dropout" in spec.name:
            require(0 <= value < 1, f"{spec.name} must be from 0 up to but not including 1, got {value}")
        elif type(value) is float:
            require(0 < value < float("inf"), f"{spec.name} must be positive and finite, got {value}")
    for name in activations:
        activation(name)
    pad, size = config.pad_token_id, config.vocab_size
    require(pad < size, f"pad_token_id {pad} must be less than vocab_size {size}")


def check_heads(width: int, heads: int, names: tuple[str, str] = ("hidden_size", "num_attention_heads")) -> None:
    """Check that heads of equal width fill the model's width; `names` are the family's for the two."""
    require(width % heads == 0, f"{names[0]} {width} must be a multiple of {names[1]} {heads}")
