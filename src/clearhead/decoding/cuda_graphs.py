"""Steps of a decoder on a GPU, recorded once as CUDA graphs and replayed for every token.

One step is a hundred short kernels, for each of which the GPU would wait for Python. A graph is for one shape and one
place in memory, so the cache lies still (`FixedCache`), with more rows and columns than are in use.
"""

# R rows of a recording · B rows in use · V vocabulary

from collections.abc import Sequence
from threading import Lock
from typing import Any, Self
from weakref import ref

import torch
from torch import Tensor, nn

from clearhead.nn.cache import Cache, FixedCache
from clearhead.nn.embeddings import check_length

_COLUMNS = 64  # at least; then twice as many, and so on
_TOO_MANY = 4  # times as many rows as are in use: texts move to a smaller recording
_KEPT = 8  # recordings of a decoder, each with a cache of its own


class GraphedDecoder:
    """A decoder with a key–value cache, whose steps are replayed where its weights lie on an NVIDIA GPU.

    Elsewhere, and while somebody watches a part of it by a hook, every step is computed as ever. The logits of a
    replayed step are overwritten by the next one.
    """

    def __init__(self, decoder: Any, network: Any) -> None:
        self.decoder = decoder
        self.start = getattr(decoder, "start", None)
        self.network = network
        self._recordings: dict[tuple[int, int, int], _Recording] = {}
        self._weights: tuple[int, ...] = ()  # where they lay when the recordings were made
        self._lock = Lock()

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """Read the prompts or sources: logits (B, V), and the state to go on from."""
        logits, cache = self.decoder.begin(prompts)
        return logits, GraphedState(self, cache, len(logits)) if self._can_record(logits) else cache

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token (B,) to every sequence: logits (B, V), and the new state."""
        if not isinstance(state, GraphedState):
            found: tuple[Tensor, Any] = self.decoder.step(tokens, state)
            return found
        check_length(state.cache.max_length + 1, self.network.encoder.max_length)
        return state.step(tokens), state

    def _can_record(self, logits: Tensor) -> bool:
        """Whether the device has graphs and nobody looks inside: a replay calls no hooks."""
        network: nn.Module = self.network
        if not logits.is_cuda or network.training:
            return False
        return not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())

    def recording(self, like: Cache, rows: int, columns: int, user: "GraphedState") -> "_Recording":
        """A recording that nobody else uses, for so many rows and columns at least."""
        source = like.layers[0].source
        key = _power(rows), max(_COLUMNS, _power(columns)), 0 if source is None else _power(source.k.shape[1])
        weights = tuple(weight.data_ptr() for weight in self.network.parameters())
        with self._lock:
            if weights != self._weights:
                self._recordings.clear()
                self._weights = weights
            found = self._recordings.pop(key, None)
            if found is None or found.user() is not None:
                found = _Recording(self.decoder, FixedCache(like, *key))
            self._recordings[key] = found  # the latest last
            if len(self._recordings) > _KEPT:
                del self._recordings[next(iter(self._recordings))]
            found.user = ref(user)
        return found


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()


class GraphedState:
    """What is remembered of texts in the making: those rows of a recording that are in use."""

    def __init__(self, owner: GraphedDecoder, cache: Cache, rows: int) -> None:
        self._owner = owner
        self._rows = rows
        self._recording = owner.recording(cache, rows, cache.max_length + 1, self)
        self.cache.take(cache, self._filled(torch.arange(rows, device=cache.layout.lengths.device)))

    @property
    def cache(self) -> FixedCache:
        """The keys and values."""
        return self._recording.cache

    def _filled(self, rows: Tensor) -> Tensor:
        """Which row each row of the recording is to be, (B,) -> (R,): those that nobody needs are the first again."""
        return torch.cat([rows, rows[:1].expand(self.cache.rows - len(rows))])

    def select(self, rows: Tensor) -> Self:
        """Take these rows, in this order."""
        self._rows = len(rows)
        if len(rows) > self.cache.rows or _TOO_MANY * len(rows) <= self.cache.rows:
            self._move(self.cache.columns, rows)
        else:
            self.cache.take(self.cache, self._filled(rows))
        return self

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token (B,): logits (B, V)."""
        if self.cache.max_length == self.cache.columns:
            self._move(self.cache.columns + 1, torch.arange(self._rows, device=tokens.device))
        return self._recording.step(tokens)

    def _move(self, columns: int, rows: Tensor) -> None:
        before = self._recording
        self._recording = self._owner.recording(before.cache, len(rows), columns, self)
        self.cache.take(before.cache, self._filled(rows))
        before.user = _nobody


def _nobody() -> None:
    return None


class _Recording:
    """One step of R rows. Where there is no GPU it is computed each time, which is how it is tested."""

    def __init__(self, decoder: Any, cache: FixedCache) -> None:
        self.decoder = decoder
        self.cache = cache
        self.user: Any = _nobody  # a weak reference: a state that nobody holds any more uses nothing
        self._tokens = torch.zeros_like(cache.layout.lengths)
        self._logits: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token (B,) to the first rows: logits (B, V), until the next step."""
        self._tokens[: len(tokens)] = tokens
        self._tokens[len(tokens) :] = tokens[0]
        if self._graph is None and tokens.is_cuda:
            self._graph = self._record()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._logits, _ = self.decoder.step(self._tokens, self.cache)
        self.cache.layout.count += 1
        assert self._logits is not None  # noqa: S101
        return self._logits[: len(tokens)]

    def _record(self) -> torch.cuda.CUDAGraph:
        """Record a step, which computes nothing yet."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._tokens.device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # libraries set themselves up, which cannot be recorded
                lengths = self.cache.layout.lengths.clone()
                self.decoder.step(self._tokens, self.cache)
                self.cache.rewind(lengths)
            torch.cuda.current_stream().wait_stream(stream)
            # other threads may use the GPU meanwhile
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._logits, _ = self.decoder.step(self._tokens, self.cache)
        return graph
