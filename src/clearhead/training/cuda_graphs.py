"""The passes of an encoder, with or without a decoder, recorded once as CUDA graphs and replayed.

Small batches otherwise wait for Python. A graph is for one shape, so a batch is filled up to the next of a few shapes,
with sequences that nobody reads. Heads and losses see the batch as it was.
"""

# N packed tokens · B sequences · D width

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.layout import Packed
from clearhead.nn.relative import Distances, RelativeAttention, RelativeBias

Forward = Callable[[Tensor, Packed, Any], Tensor]

_STEPS = 8  # shapes between a number of tokens and its double: a batch is filled up by 6 % on average
_FEWEST = 64
_TILE = 128  # what the attention kernel works on at a time: shorter texts are no quicker


@dataclass(frozen=True)
class Shape:
    """What a recorded pass is for: tokens, sequences, and the longest of them, fillers included."""

    tokens: int
    sequences: int
    longest: int

    @classmethod
    def of(cls, layout: Packed, tokens: int, limit: int) -> Self:
        """Find the shape that a text is filled up to; `limit` is the longest sequence that there are positions for."""
        whole = _round_up(tokens)
        longest = min(max(_TILE, 2 ** (layout.max_length - 1).bit_length()), limit)
        fillers = max(1, -(-(whole - tokens) // longest))
        return cls(whole, _round_up(layout.batch + fillers), longest)


def _round_up(count: int) -> int:
    step = max(_FEWEST, 2 ** (count.bit_length() - 1)) // _STEPS
    return max(_FEWEST, -(-count // step) * step)


def fill_offsets(offsets: Tensor, layout: Packed, tokens: int, shape: Shape) -> None:
    """Write the offsets (B + 1,) of a filled batch: fillers as long as may be, then empty ones."""
    count = layout.batch + 1
    offsets[:count].copy_(layout.offsets)
    fillers = torch.arange(1, offsets.shape[0] - count + 1, dtype=offsets.dtype, device=offsets.device)
    offsets[count:].copy_((tokens + fillers * shape.longest).clamp(max=shape.tokens))


@contextmanager
def graphed(network: nn.Module, wanted: bool) -> Iterator[bool]:
    """Let a network's encoder replay its passes while it trains, if it can; evaluation goes the usual way."""
    if not (wanted and is_recordable(network) and _learns_on_a_gpu(network.encoder)):
        yield False
        return
    encoder: Any = network.encoder
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    for weight in weights:  # graphs add to the gradients where they lie
        weight.grad = torch.zeros_like(weight)
    encoder.__dict__["forward"] = _Graphs(encoder)
    try:
        yield True
    finally:
        del encoder.__dict__["forward"]
        for weight in weights:
            weight.grad = None


def is_recordable(network: nn.Module) -> bool:
    """Nothing recurrent, and nothing that lays its texts out in rectangles: fillers would make them grow."""
    if not isinstance(network, Network):
        return False
    return not any(isinstance(part, RelativeBias | RelativeAttention | Distances) for part in network.encoder.modules())


def _learns_on_a_gpu(encoder: Any) -> bool:
    return any(weight.requires_grad and weight.is_cuda for weight in encoder.parameters())


class _Graphs:
    """Takes the place of an encoder's forward."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._forward: Forward = encoder.forward
        self._reads = isinstance(encoder, EncoderDecoder)
        self._recorded: dict[tuple[Shape, Shape | None, bool], _Recording] = {}
        self._pool: Any = torch.cuda.graph_pool_handle()
        self.busy = False  # between a forward pass and its backward pass, when another would overwrite what is kept
        self._anchor = torch.empty(0, device=next(encoder.parameters()).device, requires_grad=True)

    def __call__(self, ids: Tensor, layout: Packed, beside: Any = None) -> Tensor:
        """Do what the encoder does."""
        # an encoder is given segments, an encoder–decoder a source; what else is read has no place here
        known = beside is None or isinstance(beside, Tensor) != self._reads
        if self.busy or not known or not (self._encoder.training and torch.is_grad_enabled()) or self._watched():
            return self._forward(ids, layout, beside)
        limit, source = self._encoder.max_length, beside if self._reads else None
        segments = None if self._reads else beside
        shape = Shape.of(layout, ids.shape[0], limit)
        other = None if source is None else Shape.of(source.layout, source.ids.shape[0], limit)
        if other is not None:  # the kernel wants as many sequences here as there
            most = max(shape.sequences, other.sequences)
            shape, other = replace(shape, sequences=most), replace(other, sequences=most)
        key = shape, other, segments is not None
        if key not in self._recorded:
            self._recorded[key] = _Recording(self._encoder, self._forward, *key, self._pool)
        recording = self._recorded[key]
        recording.text.put(ids, layout, segments)
        if source is not None and recording.source is not None:
            recording.source.put(source.ids, source.layout)
        self.busy = True
        hidden: Tensor = _Replay.apply(self._anchor, self, recording, ids.shape[0])
        return hidden

    def _watched(self) -> bool:
        """Say whether anybody looks inside of the encoder: a replay calls no hooks."""
        return any(part._forward_hooks or part._forward_pre_hooks for part in self._encoder.modules())


class _Text:
    """The memory that a graph reads one text from; to the decoder, its source."""

    def __init__(self, shape: Shape, segments: bool, device: torch.device) -> None:
        self.shape = shape
        self.ids = torch.zeros(shape.tokens, dtype=torch.int64, device=device)
        self.segments = torch.zeros_like(self.ids) if segments else None
        offsets = torch.full((shape.sequences + 1,), shape.tokens, dtype=torch.int32, device=device)
        offsets[:-1] = torch.arange(shape.sequences, device=device).mul(shape.longest).clamp(max=shape.tokens)
        self._layout = Packed((), offsets, torch.zeros_like(self.ids), shape.longest)

    @property
    def layout(self) -> Packed:
        """Anew each time: what a layout works out once and keeps must be worked out in the graph, for each batch."""
        return replace(self._layout)

    def put(self, ids: Tensor, layout: Packed, segments: Tensor | None = None) -> None:
        """Bring a text in; fillers keep what an earlier one left there."""
        tokens = ids.shape[0]
        self.ids[:tokens].copy_(ids)
        self._layout.positions[:tokens].copy_(layout.positions)
        if self.segments is not None and segments is not None:
            self.segments[:tokens].copy_(segments)
        fill_offsets(self._layout.offsets, layout, tokens, self.shape)


class _Recording:
    """The graphs of one shape, with the memory they read from and write to.

    All recordings share one pool: a forward pass is always followed by its own backward pass.
    """

    def __init__(
        self, encoder: Any, forward: Forward, shape: Shape, source: Shape | None, segments: bool, pool: Any
    ) -> None:
        weights = [weight for weight in encoder.parameters() if weight.requires_grad]
        device = weights[0].device
        self.text = _Text(shape, segments, device)
        self.source = None if source is None else _Text(source, False, device)

        def run() -> Tensor:
            # a weight cast inside of a graph must not be found in the cache outside
            half = torch.is_autocast_enabled("cuda")
            with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):
                return forward(self.text.ids, self.text.layout, self.source or self.text.segments)

        rng_state = torch.cuda.get_rng_state(device)
        _warm_up(run, weights, device)
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward, pool=pool):
            hidden = run()
        self.gradient = torch.zeros_like(hidden)
        with torch.cuda.graph(self.backward, pool=pool):
            found = torch.autograd.grad(hidden, weights, self.gradient, allow_unused=True)
            pairs = [(w.grad, new) for w, new in zip(weights, found, strict=True) if new is not None]
            torch._foreach_add_([old for old, _ in pairs], [new for _, new in pairs])
        self.hidden = hidden.detach()
        torch.cuda.set_rng_state(rng_state, device)  # as if nothing had been recorded


class _Replay(torch.autograd.Function):
    """A recorded pass as one node; its weights' gradients are added by the graph itself."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, graphs: _Graphs, recording: _Recording, tokens: int) -> Tensor:
        """Give the hidden states (N, D) of what was put into the recording."""
        ctx.graphs, ctx.recording = graphs, recording
        recording.forward.replay()
        return recording.hidden[:tokens].detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        """Take the gradient (N, D); fillers get none."""
        recording: _Recording = ctx.recording
        recording.gradient[: gradient.shape[0]].copy_(gradient)
        recording.gradient[gradient.shape[0] :].zero_()
        recording.backward.replay()
        ctx.graphs.busy = False
        return None, None, None, None


def _warm_up(run: Callable[[], Tensor], weights: list[nn.Parameter], device: torch.device) -> None:
    """Run on another stream, because what libraries set up on their first call cannot be recorded."""
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(2):
            hidden = run()
            torch.autograd.grad(hidden, weights, torch.zeros_like(hidden), allow_unused=True)
    torch.cuda.current_stream(device).wait_stream(aside)
