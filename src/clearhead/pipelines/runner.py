"""Many inputs through a network: cut into windows, sorted by length, packed, results in the order asked."""

# N packed tokens · B sequences · L outputs

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from itertools import islice, repeat, zip_longest
from threading import Barrier, Lock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch, chunks, group_by_length
from clearhead.errors import BadInput, InputTooLong, WrongTask, require
from clearhead.io import Progress
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.hooks import evaluating
from clearhead.text import Tokenizer, Window
from clearhead.text.windows import cut, room_for, spans

if TYPE_CHECKING:
    from clearhead.pipelines.question_answering import FoundAnswer
    from clearhead.pipelines.search.index import Index

Item = TypeVar("Item")
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
    return chunks(map(plain, items), most, lambda item: _characters(item) + _CHARACTERS_OF_NOTHING)


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
    """One sequence for the network; `weight` is how many tokens of the text it speaks for, where windows are merged."""

    ids: Sequence[int]
    segments: Sequence[int]
    weight: int = 1


Forward = Callable[[Batch], Tensor]  # computes on the device; those that compute the same are equal
Divide = Callable[[Tensor, Batch], Sequence[Tensor]]  # cuts what it gave, on the host: one tensor for each sequence


def per_sequence(out: Tensor, _: Batch) -> Sequence[Tensor]:
    """One row for each sequence: (B, L) -> B rows."""
    return out.unbind()


def per_token(out: Tensor, batch: Batch) -> Sequence[Tensor]:
    """One row for each token: (N, L) -> B tables."""
    return batch.layout.split(out)


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
        """One tensor for each input, in their order."""
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
    """Compute some inputs as one packed batch, where the module is: one tensor for each, on the host."""
    batch = _packed(inputs)
    return divide(forward(batch.to(next(module.parameters()).device)).float().cpu(), batch)


def read_windows(
    module: nn.Module,
    forward: Forward,
    divide: Divide,
    items: Iterable[Item],
    cut: Callable[[list[Item]], list[list[Window]]],
    progress: Progress | None = None,
) -> Iterator[tuple[Item, list[Window], list[Tensor]]]:
    """`run` a stream of texts, or of what holds texts: each with the windows that `cut` gives it, and their results."""
    for chunk in chunks_of_text(items):
        windows = cut(chunk)
        inputs = [[Input(one.encoding.ids, one.encoding.segments) for one in item] for item in windows]
        yield from zip(chunk, windows, run(module, forward, divide, inputs, progress=progress), strict=True)


def run(
    module: nn.Module,
    forward: Forward,
    divide: Divide,
    items: Sequence[Sequence[Input]],
    *,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> list[list[Tensor]]:
    """Run every input of every item (a text is an item, its windows are its inputs): results in the same order.

    `module` is what computes, which says where. A result is the same whatever runs beside it, up to rounding.
    `progress` is told how many more items are done.
    """
    device = next(module.parameters()).device
    places = [(i, j) for i, item in enumerate(items) for j in range(len(item))]
    inputs = [items[i][j] for i, j in places]
    results = [[torch.empty(0)] * len(item) for item in items]
    left = [len(item) for item in items]
    lengths = [len(one.ids) for one in inputs]
    if (queue := _QUEUE.get()) is not None:
        for (i, j), part in zip(places, queue.compute(module, forward, divide, inputs), strict=True):
            results[i][j] = part
        if progress is not None and items:
            progress(len(items))
        return results
    on_cpu = device.type == "cpu"
    # on a CPU, every thread should have a batch
    share = min(max(-(-sum(lengths) // torch.get_num_threads()), _LEAST_TOKENS), _BATCH_TOKENS)
    budget = batch_tokens or (share if on_cpu else _BATCH_TOKENS_GPU)
    groups: list[list[int]] = [group.tolist() for group in group_by_length(lengths, budget)]

    def compute(group: list[int]) -> Sequence[Tensor]:
        return compute_batch(module, forward, divide, [inputs[i] for i in group])

    def queued() -> Iterator[Sequence[Tensor]]:
        """A GPU gets its next batch before the results of the last are fetched."""
        waiting: tuple[Tensor, Batch] | None = None
        for group in groups:
            batch = _packed([inputs[i] for i in group])
            out = forward(batch.to(device)).float()
            if waiting is not None:
                yield divide(waiting[0].cpu(), waiting[1])
            waiting = (out, batch)
        if waiting is not None:
            yield divide(waiting[0].cpu(), waiting[1])

    training = any(part.training for part in module.modules())  # which is seldom
    with torch.inference_mode(), evaluating(module) if training else nullcontext():
        outputs = _side_by_side(compute, groups) if on_cpu else queued()
        for group, parts in zip(groups, outputs, strict=True):
            done = 0
            for index, part in zip(group, parts, strict=True):
                i, j = places[index]
                results[i][j] = part
                left[i] -= 1
                done += not left[i]
            if progress is not None and done:
                progress(done)
    return results


def _side_by_side(
    compute: Callable[[list[int]], Sequence[Tensor]], groups: Sequence[list[int]]
) -> Iterator[Sequence[Tensor]]:
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


def _packed(inputs: Sequence[Input]) -> Batch:
    # all tokens in the first segment is what models take for granted, and spares them the look-up
    paired = any(any(one.segments) for one in inputs)
    segments = [one.segments or [0] * len(one.ids) for one in inputs] if paired else None
    return Batch.of([one.ids for one in inputs], segments)


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


def inputs_of_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[list[Input]]:
    """The inputs of each text: one if it has at most `limit` tokens, else one for each window."""
    if tokenizer.tells_capitals:  # beside the ids
        found = windows_of_texts(tokenizer, texts, limit)
        return [[Input(one.encoding.ids, one.encoding.segments, len(one.best)) for one in item] for item in found]
    template = tokenizer.template
    room = room_for(template, limit)
    return [
        [
            # XLNet's <cls> is in a segment of its own, also after one text
            Input(template.wrap_ids(ids[held.start : held.stop]), template.wrap_segments(len(held)), len(best))
            for held, best in spans(len(ids), room)
        ]
        for ids in tokenizer.ids_batch(texts)
    ]


def windows_of_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[list[Window]]:
    """The windows of each text, for results that point into the text."""
    room = room_for(tokenizer.template, limit)
    return [cut(tokenizer.template, pieces, room) for pieces in tokenizer.pieces_batch(texts)]


def inputs_of_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], limit: int) -> list[list[Input]]:
    """The inputs of each pair; of one that is too long, the longer text is read in windows, beside the whole other."""
    pieces = iter(tokenizer.pieces_batch([text for pair in pairs for text in pair]))
    template = tokenizer.template
    found = []
    for _ in pairs:
        first, second = next(pieces), next(pieces)
        room = room_for(template, limit, min(len(first), len(second)))
        told = f"Both texts of a pair are long ({len(first)} and {len(second)} tokens)"
        require(room > 0, f"{told} and the model has {limit} positions; shorten one of them.", InputTooLong)
        if len(first) >= len(second):
            several = cut(template, first, room, after=second)
        else:
            several = cut(template, second, room, before=first)
        found.append([Input(one.encoding.ids, one.encoding.segments, len(one.best)) for one in several])
    return found


def merged(windows: Sequence[Input], rows: Sequence[Tensor]) -> Tensor:
    """Results of a text's windows -> the text's: the mean, weighted by the tokens each window speaks for."""
    if len(rows) == 1:
        return rows[0]
    weights = torch.tensor([float(one.weight) for one in windows])
    return weights @ torch.stack(list(rows)) / weights.sum()


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
    def __call__(self, questions: str, contexts: "Index", *args: P.args, **options: P.kwargs) -> "FoundAnswer": ...  # type: ignore[overload-overlap]
    @overload
    def __call__(
        self, questions: Collection[str], contexts: "Index", *args: P.args, **options: P.kwargs
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
