"""What every drop-in pipeline shares: options of the pipeline and of a call, and how inputs are fed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, TypeVar

from torch.utils.data import Dataset, IterableDataset

from clearhead.errors import BadInput, require
from clearhead.io import chunks
from clearhead.pipelines.runner import plain

# enough inputs of a stream that neighbours in length are many, few enough that the first result comes soon
_AHEAD = 256

# what v4 takes and what changes nothing here: texts are neither truncated nor padded, and no code is ever fetched
_IDLE = frozenset(
    """
    framework use_fast trust_remote_code num_workers padding truncation max_length tokenizer_kwargs tokenize_kwargs
    max_question_len
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What may be said to any pipeline: `batch_size` is how many inputs of a stream are read ahead."""

    batch_size: int | None = None


Chosen = TypeVar("Chosen", bound=Options)


def settle(kind: type[Chosen], *layers: Mapping[str, Any]) -> Chosen:
    """Choose options: those of a call over those of the pipeline over the defaults."""
    known = [spec.name for spec in fields(kind)]
    said = {name: value for layer in layers for name, value in layer.items() if name in known or name not in _IDLE}
    for name in said:
        require(name in known, f"{name} is no option of this pipeline; it has {', '.join(known)}", BadInput)
    return kind(**said)


def at_least_one(name: str, value: int) -> None:
    """Refuse a number of things that is not 1 or more."""
    require(isinstance(value, int) and value > 0, f"{name}={value!r} must be 1 or more", BadInput)


def feed(given: Any, results: Callable[[Sequence[Any]], Iterable[Any]], options: Options) -> Any:
    """One result for a text or a dictionary, a list for a list or a column, an iterator for a stream or a data set."""
    if isinstance(given, str | Mapping):
        (found,) = results([given])
        return found
    require(isinstance(given, Iterable | Dataset), f"Inputs are texts, not {type(given).__name__}.", BadInput)
    if isinstance(given, Sized) and not isinstance(given, Dataset):
        return list(results([plain(one) for one in _stream(given)]))
    ahead = options.batch_size or _AHEAD
    at_least_one("batch_size", ahead)
    return chain.from_iterable(map(results, chunks(map(plain, _stream(given)), ahead)))


def _stream(given: Any) -> Iterator[Any]:
    """Go through a stream; PyTorch's data sets with numbered items need not know when to stop."""
    if isinstance(given, Dataset) and not isinstance(given, IterableDataset):
        return (given[i] for i in range(len(given)))  # type: ignore[arg-type]
    return iter(given)
