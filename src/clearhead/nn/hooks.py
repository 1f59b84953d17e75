"""Watch a forward pass from outside: what went into a module and what came out. Models contain no line for it."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, require
from clearhead.nn.blocks import Encoder
from clearhead.nn.layout import Layout


@dataclass(frozen=True)
class Call:
    """One call of a module."""

    module: nn.Module
    inputs: tuple[Any, ...]
    output: Any


@contextmanager
def record(*modules: nn.Module) -> Iterator[list[Call]]:
    """Collect this thread's calls of these modules, in the order in which they return; each is watched once."""
    calls: list[Call] = []
    handles = []
    watching = threading.get_ident()

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if threading.get_ident() == watching:  # other texts may go through the same modules beside these
            calls.append(Call(module, inputs, output))

    try:
        for module in dict.fromkeys(modules):
            handles.append(module.register_forward_hook(note))
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch dropout off for a while; afterwards every part is in the mode it was in, even after an error."""
    training = [part for part in module.modules() if part.training]
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


Combine = Literal["mean", "sum", "concat"]


def mix_layers(states: Sequence[Tensor] | Tensor, layers: Sequence[int], combine: Combine = "mean") -> Tensor:
    """Combine some of L + 1 hidden states (…, D); they count from 0, the embeddings, or from -1, the last."""
    low, high = -len(states), len(states) - 1
    for layer in layers:
        require(low <= layer <= high, f"layer {layer} is not there; this model has layers 0 to {high}", BadInput)
    require(combine in get_args(Combine), f"combine={combine!r} is not known; choose mean, sum or concat", BadInput)
    chosen = [states[layer] for layer in layers]
    if combine == "concat":
        return torch.cat(chosen, -1)
    return torch.stack(chosen).mean(0) if combine == "mean" else torch.stack(chosen).sum(0)


def hidden_states(
    encoder: Encoder, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None
) -> list[Tensor]:
    """Run the encoder and return the embeddings, then what each layer gave: L + 1 tensors (…, D).

    The last is the encoder's own output, after its last norm if it has one, as in Hugging Face's `hidden_states`.
    """
    with record(encoder.embeddings, *encoder.blocks) as calls:
        output = encoder(ids, layout, segments)
    return [*(call.output for call in calls[:-1]), output]
