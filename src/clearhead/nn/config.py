"""Checks that every family's configuration needs."""

from dataclasses import fields
from typing import Any

from clearhead.errors import require
from clearhead.nn.blocks import activation

_MAY_BE_ZERO = {"pad_token_id", "type_vocab_size"}


def check_config(config: Any, *activations: str) -> None:
    """Check sizes (positive), probabilities (0 ≤ p < 1) and the activations named."""
    for spec in fields(config):
        value = getattr(config, spec.name)
        if type(value) is int:
            least = 0 if spec.name in _MAY_BE_ZERO else 1
            require(value >= least, f"{spec.name} must be at least {least}, got {value}")
        if type(value) is float and ("dropout" in spec.name):
            require(0 <= value < 1, f"{spec.name} must be from 0 up to but not including 1, got {value}")
    for name in activations:
        activation(name)


def check_heads(width: int, heads: int) -> None:
    """Check that heads of equal width fill the model's width."""
    require(width % heads == 0, f"hidden_size {width} must be a multiple of num_attention_heads {heads}")
