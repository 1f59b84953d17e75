"""What comes into the linear maps of an encoder on a sample: the range of every feature, by the part's name."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.nn.blocks import FeedForward
from clearhead.nn.multihead import MultiHeadAttention
from clearhead.nn.quantised import Range

Ranges = dict[str, Range]


@contextmanager
def ranges_of_inputs(encoder: nn.Module) -> Iterator[Ranges]:
    """Watch an encoder while it reads: the ranges grow under the names of its linear maps ("blocks.0.attention.qkv").

    Maps whose inputs bytes can hold once and for all are watched: those of attention without rotary positions
    and of GELU feed-forwards. In ModernBERT's blocks, whose gates reach far now and then, fixed steps cost accuracy.
    """
    ranges: Ranges = {}
    lock = Lock()  # batches may run side by side

    def widen(name: str, x: Tensor) -> None:
        if not x.numel():
            return
        tokens = x.detach().reshape(-1, x.shape[-1]).float()
        low, high = tokens.amin(0), tokens.amax(0)
        with lock:
            if name in ranges:
                low, high = torch.minimum(low, ranges[name].low), torch.maximum(high, ranges[name].high)
            ranges[name] = Range(low, high)

    def watch_attention(name: str, part: MultiHeadAttention) -> Any:
        yield part.register_forward_pre_hook(lambda _, given: widen(f"{name}.qkv", given[0]))
        yield part.attend.register_forward_hook(lambda _, __, out: widen(f"{name}.output", out.flatten(-2)))

    def watch_feedforward(name: str, part: FeedForward) -> Any:
        def note(_: nn.Module, given: tuple[Any, ...]) -> None:
            widen(f"{name}.up", given[0])
            widen(f"{name}.down", part.inner(given[0]))

        yield part.register_forward_pre_hook(note)

    handles: list[Any] = []
    try:
        for name, part in encoder.named_modules():
            if type(part) is MultiHeadAttention and part.rotary is None:
                handles.extend(watch_attention(name, part))
            elif type(part) is FeedForward and part.act is F.gelu:
                handles.extend(watch_feedforward(name, part))
        yield ranges
    finally:
        for handle in handles:
            handle.remove()
