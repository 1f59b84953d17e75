"""Watch a forward pass from outside: what went into a module and what came out. Models contain no line for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

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
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def hidden_states(
    encoder: Encoder, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None
) -> list[Tensor]:
    """Run the encoder and return the embeddings, then what each layer gave: L + 1 tensors (…, D).

    The last is the encoder's own output, after its last norm if it has one, as in Hugging Face's `hidden_states`.
    """
    with record(encoder.embeddings, *encoder.blocks) as calls:
        output = encoder(ids, layout, segments)
    return [*(call.output for call in calls[:-1]), output]
