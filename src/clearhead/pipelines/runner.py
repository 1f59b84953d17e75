"""Many inputs through a network: cut into windows, sorted by length, packed, results in the order asked."""

# N packed tokens · B sequences · L outputs

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import islice, pairwise, repeat, zip_longest
from threading import Barrier, Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.data.batch import Batch, group_by_length
from clearhead.errors import BadInput, InputTooLong, WrongTask, require
from clearhead.io import Progress
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.hooks import evaluating
from clearhead.nn.layout import Packed
from clearhead.text import Tokenizer, Window
from clearhead.text.encoding import room_for
from clearhead.text.packed import (
    Ints,
    PackedWindows,
    PieceRanges,
    Sequences,
    packed_spans,
    ranges,
    starts_of,
    wrap_packed,
)
from clearhead.text.windows import cut

if TYPE_CHECKING:
    from clearhead.pipelines.question_answering import FoundAnswer
    from clearhead.pipelines.search.stored import AnyIndex

Item = TypeVar("Item")
Held = TypeVar("Held")
Given = TypeVar("Given", contravariant=True)
Result = TypeVar("Result")
Self_ = TypeVar("Self_")
Call = TypeVar("Call", covariant=True)
P = ParamSpec("P")

# what is sorted together: enough that neighbours in length are many, few enough for any memory
_CHUNK_CHARACTERS = 4_000_000
_CHARACTERS_OF_NOTHING = 250  # an input costs memory even if it is empty


def chunks_of_text(items: Iterable[Item], characters: int | None = None) -> Iterator[list[Item]]:
    """Cut a stream of texts, or of what holds texts, into lists that fit the memory however long the texts are."""
    most = _CHUNK_CHARACTERS if characters is None else characters
    chunk: list[Item] = []
    weight = 0
    for item in items:
        if type(item) is not str:  # most are, and should cost no call of a function
            item = plain(item)
        weight += _CHARACTERS_OF_NOTHING + (len(item) if isinstance(item, str) else _characters(item))
        chunk.append(item)
        if weight >= most:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk


def plain(item: Any) -> Any:
    """A cell of an arrow column as Python's own value, also within a pair; everything else as it is."""
    if type(item) is tuple:
        return tuple(map(plain, item))
    return item.as_py() if hasattr(item, "as_py") else item


def _characters(item: object) -> int:
    if isinstance(item, str):
        return len(item)
    require(isinstance(item, tuple | list), f"A text must be a string, not {type(item).__name__}.", BadInput)
    return sum(map(_characters, cast("Sequence[object]", item)))


# on a CPU the hidden states of a batch should stay in its cache; a GPU wants to be filled
_BATCH_TOKENS = 2048
_LEAST_TOKENS = 256  # few tokens are not worth dividing between the threads
_BATCH_TOKENS_GPU = 65_536
_CHUNK_CHARACTERS_GPU = 2_000_000  # of which three are under way: tokenised, computed, and read

# what each head lets a user do; every encoder can embed, too
_USES = {
    "masked_lm": ("fill",),
    "classes": ("classify", "compare"),
    "tags": ("tag",),
    "span": ("answer",),
    "choice": ("choose",),
    "next_sentence": ("tell what follows",),
    "causal_lm": ("generate",),
}


@dataclass(frozen=True, slots=True)
class Input:
    """One sequence for the network, as a queue takes them."""

    ids: Sequence[int]
    segments: Sequence[int]


Forward = Callable[[Batch], Tensor]  # computes on the device; those that compute the same are equal
Divide = Callable[[Ints, Ints], Ints]  # ids of many inputs (N,), their lengths (B,) -> rows that each has in the output


def per_sequence(_: Ints, lengths: Ints) -> Ints:
    """One row for each input."""
    return np.ones_like(lengths)


def per_token(_: Ints, lengths: Ints) -> Ints:
    """One row for each token."""
    return lengths


@dataclass(frozen=True, slots=True)
class HeadForward:
    """Runs a network and one of its heads."""

    network: Network
    head: str

    def __call__(self, batch: Batch) -> Tensor:
        """The head's outputs."""
        return self.network(self.head, batch.ids, batch.layout, batch.segments)


def through(network: Network, head: str) -> Forward:
    """Run the network and one of its heads; refuse a head that it has not."""
    check_head(network, head)
    return HeadForward(network, head)


class Queue(Protocol):
    """Where inputs of many callers are computed together, each caller waiting for its own."""

    def compute(self, module: nn.Module, forward: Forward, divide: Divide, inputs: Sequence[Input]) -> Sequence[Tensor]:
        """The rows of each input, in their order."""
        ...


_QUEUE: ContextVar[Queue | None] = ContextVar("queue", default=None)


@contextmanager
def queued_in(queue: Queue) -> Iterator[None]:
    """Let all that this thread runs be computed by a queue, which fills its batches with what others run, too."""
    token = _QUEUE.set(queue)
    try:
        yield
    finally:
        _QUEUE.reset(token)


@torch.inference_mode()  # which is a thread's own
def compute_batch(module: nn.Module, forward: Forward, divide: Divide, inputs: Sequence[Input]) -> Sequence[Tensor]:
    """Compute some inputs as one packed batch, where the module is: the rows of each, on the host."""
    sequences = Sequences.of([one.ids for one in inputs], [one.segments for one in inputs])
    batch = _batch_of_one(sequences) if len(inputs) == 1 else Batch.gather(sequences, np.arange(len(inputs)))
    out = forward(batch.to(next(module.parameters()).device)).float().cpu()
    return out.split(divide(sequences.ids, sequences.lengths).tolist())


@dataclass(frozen=True, slots=True)
class Prepared(Generic[Held]):
    """Texts made ready for a network: windows over them, and what the network reads of each window.

    `held` is what results are made of, beside what the network says. `owners` are the items that progress is told of,
    where these are not the texts.
    """

    windows: PackedWindows
    sequences: Sequences
    held: Held
    owners: Ints | None = None  # (B,)

    def batching(self, divide: Divide, device: torch.device, tokens: int | None) -> "Batching":
        """Group the inputs for a device."""
        owners = self.windows.text if self.owners is None else self.owners
        return Batching.of(self.sequences, divide, device, tokens, owners)


def read(
    module: nn.Module,
    forward: Forward,
    divide: Divide,
    items: Iterable[Item],
    prepare: Callable[[list[Item]], Prepared[Held]],
    *,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Prepared[Held], Tensor]]:
    """`run` a stream of texts, or of what holds texts, chunk by chunk."""
    device = next(module.parameters()).device
    if device.type != "cpu" and _QUEUE.get() is None:
        yield from read_ahead(module, forward, divide, items, prepare, batch_tokens=batch_tokens, progress=progress)
        return
    for ready in map(prepare, chunks_of_text(items)):
        if _is_alone(module, device, ready.sequences):
            yield ready, _run_alone(forward, ready.sequences, progress)
        else:
            yield ready, _run(module, forward, divide, ready.batching(divide, device, batch_tokens), progress)


def read_ahead(
    module: nn.Module,
    forward: Forward,
    divide: Divide,
    items: Iterable[Item],
    prepare: Callable[[list[Item]], Prepared[Held]],
    *,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Prepared[Held], Tensor]]:
    """`read` for a GPU, which never waits: a chunk is computed while the next is prepared and the last is given out.

    Preparing is tokenising, packing and batching, in a thread. A CPU has nothing to spare for that.
    """
    device = next(module.parameters()).device

    def begin(chunk: list[Item]) -> tuple[Prepared[Held], Batching, list[Batch]]:
        ready = prepare(chunk)
        batching = ready.batching(divide, device, batch_tokens)
        return ready, batching, batching.batches(pin=device.type == "cuda")

    waiting: tuple[Prepared[Held], Callable[[], Tensor]] | None = None
    for future in _ahead(begin, chunks_of_text(items, min(_CHUNK_CHARACTERS_GPU, _CHUNK_CHARACTERS))):
        coming = None
        if future.exception() is None:
            ready, batching, batches = future.result()
            coming = ready, _launch(module, forward, batching, batches, progress)
        if waiting is not None:
            yield waiting[0], waiting[1]()
        waiting = coming
        future.result()  # what went wrong there is told after the results before it
    if waiting is not None:
        yield waiting[0], waiting[1]()


def _ahead(function: Callable[[Item], Result], items: Iterator[Item]) -> "Iterator[Future[Result]]":
    """Apply a function to one item after another in a thread, one ahead of what is taken.

    Items are taken in the caller's own thread, since a stream may be bound to it (a cursor of sqlite3 is).
    """
    with ThreadPoolExecutor(1, "clearhead-ahead") as thread:
        coming: Future[Result] | None = None
        while True:
            before, coming = coming, None
            try:
                coming = thread.submit(function, next(items))
            except StopIteration:
                pass
            except Exception as error:
                coming = Future()
                coming.set_exception(error)
            if before is not None:
                yield before
            if coming is None:
                return


def read_windows(
    module: nn.Module,
    forward: Forward,
    divide: Divide,
    items: Iterable[Item],
    cut: Callable[[list[Item]], list[list[Window]]],
    progress: Progress | None = None,
) -> Iterator[tuple[Item, list[Window], list[Tensor]]]:
    """`run` a stream of texts, where each is looked at by itself: with the windows that `cut` gives, and their rows."""
    for chunk in chunks_of_text(items):
        windows = cut(chunk)
        read = [one.encoding for item in windows for one in item]
        sequences = Sequences.of([one.ids for one in read], [one.segments for one in read])
        owners = np.repeat(np.arange(len(chunk)), [len(item) for item in windows])
        rows = run(module, forward, divide, sequences, owners=owners, progress=progress)
        tables = iter(rows.split(divide(sequences.ids, sequences.lengths).tolist()))
        for text, item in zip(chunk, windows, strict=True):
            yield text, item, list(islice(tables, len(item)))


def run(
    module: nn.Module,
    forward: Forward,
    divide: Divide,
    sequences: Sequences,
    *,
    owners: Ints | None = None,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Run every input: the rows of the first, then those of the second, and so on, on the host.

    `module` is what computes, which says where. A result is the same whatever runs beside it, up to rounding.
    `progress` is told how many more items are done: `owners` says whose each input is, or each is an item of its own.
    """
    device = next(module.parameters()).device
    if _is_alone(module, device, sequences):
        return _run_alone(forward, sequences, progress)
    batching = Batching.of(sequences, divide, device, batch_tokens, owners)
    return _run(module, forward, divide, batching, progress)


@dataclass(frozen=True, slots=True)
class Batching:
    """Which inputs are computed together, longest first, and where the rows of each belong."""

    sequences: Sequences
    owners: Ints  # (B,)
    groups: list[Ints]
    rows: Ints  # (B + 1,) where those of each input begin

    @classmethod
    def of(
        cls, sequences: Sequences, divide: Divide, device: torch.device, tokens: int | None, owners: Ints | None
    ) -> "Batching":
        """Group by length, in batches of so many tokens, or as many as suit the device."""
        lengths = sequences.lengths
        # on a CPU, every thread should have a batch
        share = min(max(-(-len(sequences.ids) // torch.get_num_threads()), _LEAST_TOKENS), _BATCH_TOKENS)
        budget = tokens or (share if device.type == "cpu" else _BATCH_TOKENS_GPU)
        owners = np.arange(len(sequences)) if owners is None else owners
        return cls(sequences, owners, group_by_length(lengths, budget), starts_of(divide(sequences.ids, lengths)))

    def batches(self, *, pin: bool) -> list[Batch]:
        """All batches; in page-locked memory, from which a copy to a GPU need not be waited for."""
        made = (Batch.gather(self.sequences, group) for group in self.groups)
        return [batch.map(Tensor.pin_memory) for batch in made] if pin else list(made)

    def collect(self, outputs: Iterable[Tensor], progress: Progress | None) -> Tensor:
        """Put the outputs of all batches, on the host, into the order of the inputs."""
        found: NDArray[np.float32] | None = None
        left = np.bincount(self.owners) if progress is not None else None
        for group, out in zip(self.groups, outputs, strict=True):
            if len(self.owners) == 1:
                found = out.numpy()
            else:
                found = np.empty((self.rows[-1], *out.shape[1:]), np.float32) if found is None else found
                found[ranges(self.rows[group], self.rows[group + 1] - self.rows[group])] = out.numpy()
            if progress is not None and left is not None:
                own, counts = np.unique(self.owners[group], return_counts=True)
                left[own] -= counts
                if done := int((left[own] == 0).sum()):
                    progress(done)
        return torch.empty(0) if found is None else torch.from_numpy(found)


def _run(module: nn.Module, forward: Forward, divide: Divide, batching: Batching, progress: Progress | None) -> Tensor:
    sequences, device = batching.sequences, next(module.parameters()).device
    if (queue := _QUEUE.get()) is not None:
        parts = queue.compute(module, forward, divide, _inputs(sequences))
        if progress is not None and len(sequences):
            progress(len(np.unique(batching.owners)))
        return torch.cat(list(parts)) if parts else torch.empty(0)
    if device.type != "cpu":
        return _launch(module, forward, batching, batching.batches(pin=device.type == "cuda"), progress)()

    @torch.inference_mode()
    def compute(group: Ints) -> Tensor:
        return forward(Batch.gather(sequences, group)).float()

    with _computing(module):
        return batching.collect(_side_by_side(compute, batching.groups), progress)


def _is_alone(module: nn.Module, device: torch.device, sequences: Sequences) -> bool:
    """Whether there is one input for somebody who waits for it, and nothing else to take care of."""
    return len(sequences) == 1 and device.type == "cpu" and _QUEUE.get() is None and not _is_training(module)


@torch.inference_mode()
def _run_alone(forward: Forward, sequences: Sequences, progress: Progress | None) -> Tensor:
    """Run one input: nothing is sorted, gathered or shared between threads."""
    found = forward(_batch_of_one(sequences)).float().numpy()
    if progress is not None:
        progress(1)
    return torch.from_numpy(found)


def _batch_of_one(sequences: Sequences) -> Batch:
    segments = sequences.segments
    kinds = None if segments is None or not segments.any() else torch.from_numpy(segments)
    return Batch(torch.from_numpy(sequences.ids), _layout_of_one(len(sequences.ids)), kinds)


@lru_cache(maxsize=512)
def _layout_of_one(length: int) -> Packed:
    with torch.inference_mode(mode=False):  # it is kept for who trains, too
        return Packed.of([length])


def _is_training(module: nn.Module) -> bool:
    """Whether any part is to be trained; `modules()` takes ten times as long, which one short text would feel."""
    parts: list[nn.Module | None] = [module]
    for part in parts:
        if part is not None and part.training:
            return True
        if part is not None and part._modules:
            parts.extend(part._modules.values())
    return False


def _launch(
    module: nn.Module, forward: Forward, batching: Batching, batches: Sequence[Batch], progress: Progress | None
) -> Callable[[], Tensor]:
    """Give a device all its batches, without waiting for any; the function that comes back waits for the results."""
    device = next(module.parameters()).device
    cuda = device.type == "cuda"
    launched: list[tuple[Tensor, torch.cuda.Event | None]] = []
    with _computing(module):
        for batch in batches:
            out = forward(batch.to(device)).float()
            if not cuda:
                launched.append((out, None))
                continue
            host = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
            host.copy_(out, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(device))
            launched.append((host, copied))

    def outputs() -> Iterator[Tensor]:
        for out, copied in launched:
            if copied is not None:
                copied.synchronize()
            yield out.cpu()

    return lambda: batching.collect(outputs(), progress)


@contextmanager
def _computing(module: nn.Module) -> Iterator[None]:
    """Without gradients and dropout, whatever mode the module is in."""
    with torch.inference_mode(), evaluating(module) if _is_training(module) else nullcontext():
        yield


def _inputs(sequences: Sequences) -> list[Input]:
    ids, starts = sequences.ids.tolist(), sequences.starts.tolist()
    kinds = None if sequences.segments is None else sequences.segments.tolist()
    return [Input(ids[i:j], () if kinds is None else kinds[i:j]) for i, j in pairwise(starts)]


def _side_by_side(compute: Callable[[Ints], Tensor], groups: Sequence[Ints]) -> Iterator[Tensor]:
    """Results of one group after another; each of the CPU's threads computes a group of its own.

    Threads that share every product wait for each other some fifty times in a layer, most of all on a busy machine.
    """
    threads = torch.get_num_threads()
    if min(threads, len(groups)) < 2:
        yield from map(compute, groups)
        return
    pool = _pool(threads)
    futures = [pool.submit(compute, group) for group in groups]
    try:
        for future in futures:
            yield future.result()
    finally:  # after an error, nothing runs on behind the caller's back
        for future in futures:
            future.cancel()
        wait(futures)


_POOLS: dict[int, ThreadPoolExecutor] = {}
_POOLS_LOCK = Lock()


def _begin_child() -> None:
    """Make a forked process ready: threads do not survive a fork, neither these workers nor OpenMP's.

    OpenMP does not know that, and waits for ever for the lost ones where several threads share a product.
    """
    _POOLS_LOCK.release()
    _POOLS.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_POOLS_LOCK.acquire, after_in_parent=_POOLS_LOCK.release, after_in_child=_begin_child)


def _pool(threads: int) -> ThreadPoolExecutor:
    """Workers that stay, each of which computes with one thread of torch, whatever number others have.

    torch keeps the number of each thread, and a common one, which a thread takes when it first asks: setting the one
    sets the other. All workers have therefore asked before they set theirs, and the common number is put back at once.
    """
    with _POOLS_LOCK:
        if threads not in _POOLS:
            ready, alone = Barrier(threads + 1), Barrier(threads + 1)

            def compute_alone() -> None:
                torch.get_num_threads()
                ready.wait()
                torch.set_num_threads(1)
                alone.wait()

            pool = ThreadPoolExecutor(threads, "clearhead", initializer=compute_alone)
            for _ in range(threads):
                pool.submit(int)  # starts a worker, since none is idle yet
            ready.wait()
            alone.wait()
            torch.set_num_threads(threads)
            _POOLS[threads] = pool
        return _POOLS[threads]


def check_head(network: Network, head: str) -> None:
    """Refuse a use for which the network has no head, and say what it can do."""
    heads = getattr(network, "heads", ("causal_lm",))  # a recurrent network has none, and writes
    if head not in heads:
        able = [use for name, uses in _USES.items() if name in heads for use in uses]
        if isinstance(network, Network) and not isinstance(network.encoder, EncoderDecoder):
            able.append("embed")
        raise WrongTask(
            f"this model cannot {' or '.join(_USES[head])}: it has no {head!r} head; it can {', '.join(able)}"
        )


def prepare_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> Prepared[None]:
    """Of each text one input if it has at most `limit` tokens, else one for each window; only ids are looked at."""
    pieces = tokenizer.packed_batch(texts, spans=False)
    windows = packed_spans(pieces.starts[:-1], pieces.counts, room_for(tokenizer.template, limit))
    return Prepared(windows, wrap_packed(tokenizer.template, pieces, windows.held), None)


def prepare_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], limit: int) -> Prepared[None]:
    """The inputs of each pair; of one that is too long, the longer text is read in windows, beside the whole other."""
    pieces = tokenizer.packed_batch([text for pair in pairs for text in pair], spans=False)
    sizes, starts = pieces.counts.reshape(-1, 2), pieces.starts[:-1].reshape(-1, 2)
    rooms = room_for(tokenizer.template, limit, 0) - sizes.min(1, initial=limit)
    for first, second in sizes[rooms < 1].tolist():
        told = f"Both texts of a pair are long ({first} and {second} tokens)"
        raise InputTooLong(f"{told} and the model has {limit} positions; shorten one of them.")
    longer = (sizes[:, 0] < sizes[:, 1]).astype(np.int64)  # the first one where both are as long
    pair = np.arange(len(pairs))
    windows = packed_spans(starts[pair, longer], sizes[pair, longer], rooms)
    cut = longer[windows.text, None] == (0, 1)  # (B, 2)
    first = np.where(cut, windows.held.first[:, None], starts[windows.text])
    count = np.where(cut, windows.count[:, None], sizes[windows.text])
    texts = [PieceRanges(first[:, part], count[:, part]) for part in (0, 1)]
    return Prepared(windows, wrap_packed(tokenizer.template, pieces, *texts), None)


def interleaved(ones: Prepared[None], others: Prepared[None], first: NDArray[np.bool_]) -> Prepared[None]:
    """Items of two kinds in the order they came in: `first` says of each whether it is among the `ones`."""
    both = (ones, np.flatnonzero(first)), (others, np.flatnonzero(~first))
    items = np.concatenate([places[some.windows.text] for some, places in both])
    order = np.argsort(items, kind="stable")
    columns = (np.concatenate([getattr(some.windows, name) for some, _ in both])[order] for name in _COLUMNS)
    joined = Sequences.joined([some.sequences for some, _ in both])
    return Prepared(PackedWindows(items[order], *columns), joined.take(order), None)


_COLUMNS = ("start", "first", "count", "best", "weight")


def windows_of_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[list[Window]]:
    """The windows of each text, for results that show its tokens."""
    room = room_for(tokenizer.template, limit)
    return [cut(tokenizer.template, pieces, room) for pieces in tokenizer.pieces_batch(texts)]


def merged(windows: PackedWindows, rows: Tensor, join: Callable[[Tensor, Tensor], Tensor] | None = None) -> Tensor:
    """Rows of windows (B, …) -> of texts: the mean, weighted by the pieces that each window is the best one for.

    `join` makes one row of several in another way, of their weights and themselves.
    """
    if not rows.shape[0] or rows.shape[0] == windows.text[-1] + 1:  # as many texts as windows
        return rows
    starts = windows.per_text()
    sizes = np.diff(starts)
    found = rows[torch.from_numpy(starts[:-1])]
    for text in np.flatnonzero(sizes > 1).tolist():
        own = slice(starts[text], starts[text + 1])
        found[text] = (join or _mean)(torch.from_numpy(windows.weight[own]).float(), rows[own])
    return found


def _mean(weights: Tensor, rows: Tensor) -> Tensor:
    return weights @ rows / weights.sum()


# How a use is called: of one text it gives one result, of a list a list, of an iterator an iterator. A use is written
# once, for many texts, under one of the decorators; the types tell a user's tools what comes of what is given.

Many = str | Iterable[str]


class PerText(Protocol[Given, P, Result]):
    """A use of texts; every column of known length counts as a list."""

    @overload
    def __call__(self, texts: str, *args: P.args, **options: P.kwargs) -> Result: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Collection[Given], *args: P.args, **options: P.kwargs) -> list[Result]: ...
    @overload
    def __call__(self, texts: Iterator[Given], *args: P.args, **options: P.kwargs) -> Iterator[Result]: ...


class PerPrompt(Protocol[P, Result]):
    """A use that writes: given `num_return_sequences`, it gives a list for each text."""

    @overload
    def __call__(self, texts: str, *args: P.args, **options: P.kwargs) -> Result: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Collection[str], *args: P.args, **options: P.kwargs) -> list[Result]: ...
    @overload
    def __call__(self, texts: Iterator[str], *args: P.args, **options: P.kwargs) -> Iterator[Result]: ...
    @overload
    def __call__(self, texts: str, *, num_return_sequences: int, **options: Any) -> list[Result]: ...
    @overload
    def __call__(self, texts: Collection[str], *, num_return_sequences: int, **options: Any) -> list[list[Result]]: ...
    @overload
    def __call__(
        self, texts: Iterator[str], *, num_return_sequences: int, **options: Any
    ) -> Iterator[list[Result]]: ...


class PerQuestion(Protocol[P, Result]):
    """A use of questions and contexts: one of both gives one result; an index is one context."""

    @overload
    def __call__(self, questions: str, contexts: "AnyIndex", *args: P.args, **options: P.kwargs) -> "FoundAnswer": ...  # type: ignore[overload-overlap]
    @overload
    def __call__(
        self, questions: Collection[str], contexts: "AnyIndex", *args: P.args, **options: P.kwargs
    ) -> "list[FoundAnswer]": ...

    @overload
    def __call__(self, questions: str, contexts: str, *args: P.args, **options: P.kwargs) -> Result: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, questions: str, contexts: Iterator[str], *args: P.args, **options: P.kwargs
    ) -> Iterator[Result]: ...
    @overload
    def __call__(
        self, questions: Iterator[str], contexts: Many, *args: P.args, **options: P.kwargs
    ) -> Iterator[Result]: ...
    @overload
    def __call__(
        self, questions: Collection[str], contexts: Many, *args: P.args, **options: P.kwargs
    ) -> list[Result]: ...


class PerPair(Protocol[P, Result]):
    """The same of pairs of texts."""

    @overload
    def __call__(self, first: str, second: str, *args: P.args, **options: P.kwargs) -> Result: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, first: str, second: Iterator[str], *args: P.args, **options: P.kwargs
    ) -> Iterator[Result]: ...
    @overload
    def __call__(self, first: Iterator[str], second: Many, *args: P.args, **options: P.kwargs) -> Iterator[Result]: ...
    @overload
    def __call__(self, first: Collection[str], second: Many, *args: P.args, **options: P.kwargs) -> list[Result]: ...


class Use(Protocol[Call]):
    """A method with such a call; of the class itself, a plain function."""

    @overload
    def __get__(self, model: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, model: object, owner: type) -> Call: ...


def per_text(use: Callable[Concatenate[Self_, Iterable[Given], P], Iterator[Result]]) -> Use[PerText[Given, P, Result]]:
    """Let a method that takes many texts take one, many, or a stream."""

    @wraps(use)
    def call(self: Self_, texts: Any, *args: P.args, **options: P.kwargs) -> Any:
        return as_given(texts, use(self, listed(texts), *args, **options))

    return cast("Use[PerText[Given, P, Result]]", _signed(call, use))


def per_prompt(use: Callable[Concatenate[Self_, Iterable[str], P], Iterator[Result]]) -> Use[PerPrompt[P, Result]]:
    """The same for a method that writes."""
    return cast("Use[PerPrompt[P, Result]]", per_text(use))


def per_question(use: Callable[Concatenate[Self_, Many, Any, P], Iterator[Result]]) -> Use[PerQuestion[P, Result]]:
    """The same for questions and contexts: many about one, one about many, or as many of both."""
    return cast("Use[PerQuestion[P, Result]]", _of_two(use))


def per_pair(use: Callable[Concatenate[Self_, Many, Many, P], Iterator[Result]]) -> Use[PerPair[P, Result]]:
    """The same for pairs of texts."""
    return cast("Use[PerPair[P, Result]]", _of_two(use))


def _of_two(use: Callable[..., Any]) -> Any:
    _, one, other = islice(inspect.signature(use).parameters, 3)

    @wraps(use)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        found = use(self, *args, **options)
        given = {**dict(zip((one, other), args, strict=False)), **options}
        # an index is one thing to look in, however much it holds
        about_many = isinstance(given[one], str) and not hasattr(given[other], "search")
        return as_given(given[other] if about_many else given[one], found)

    return _signed(call, use)


def _signed(call: Any, use: Callable[..., Any]) -> Any:
    """Say in `help` and `inspect` what a use takes and gives: annotations are strings, such as "Iterator[Filled]"."""
    signature = inspect.signature(use)
    parameters = [
        one.replace(annotation=f"str | {one.annotation}") if str(one.annotation).startswith("Iterable[") else one
        for one in signature.parameters.values()
    ]
    one = str(signature.return_annotation).removeprefix("Iterator[").removesuffix("]")
    result = f"{one} | list[{one}] | Iterator[{one}]"
    call.__signature__ = signature.replace(parameters=parameters, return_annotation=result)
    return call


def as_given(given: object, found: Iterator[Result]) -> Result | list[Result] | Iterator[Result]:
    """Give one result for one text, a list for a list (or another column of known length), else the iterator."""
    if isinstance(given, str):
        return next(found)
    return list(found) if isinstance(given, Sized) else found


def listed(texts: str | Iterable[Item]) -> Iterable[Any]:
    """The texts that were given, of one alone a list; refuse what holds no texts before anything is computed."""
    if isinstance(texts, str):
        return [texts]
    several = hasattr(texts, "__iter__") or hasattr(texts, "__getitem__")
    several = several and not isinstance(texts, bytes | bytearray | Mapping)
    require(several, f"give a text or a list of texts, not {type(texts).__name__}", BadInput)
    # a table goes through the names of its columns, which are texts too
    whole = hasattr(texts, "columns")
    require(not whole, f"give one column of the {type(texts).__name__}, such as table['text'], not all of it", BadInput)
    return texts


def paired(first: Many, second: Many) -> Iterator[tuple[str, str]]:
    """Pair texts up: one with many, many with one, or two lists."""
    firsts, seconds = listed(first), listed(second)
    if isinstance(first, str):
        return zip(repeat(first), seconds, strict=False)
    if isinstance(second, str):
        return zip(firsts, repeat(second), strict=False)

    def one_by_one() -> Iterator[tuple[str, str]]:
        for left, right in zip_longest(firsts, seconds):
            both = left is not None and right is not None
            require(both, "two lists must be equally long to be paired; one has ended before the other", BadInput)
            yield left, right

    return one_by_one()
