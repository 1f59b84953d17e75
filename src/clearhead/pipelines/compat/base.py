"""What every drop-in pipeline shares: its options, those of a call, and how inputs are fed."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Generic, TypeVar

from torch.utils.data import Dataset, IterableDataset

from clearhead.data.batch import chunks
from clearhead.errors import BadInput, require
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import check_head, plain

# enough inputs of a stream that neighbours in length are many, few enough that the first result comes soon
_AHEAD = 256

# what v4 takes and what changes nothing here: texts are neither truncated nor padded, no code is ever fetched, and
# beams always stop when no beginning can be better
_IGNORED = frozenset(
    """
    framework use_fast trust_remote_code num_workers padding truncation max_length tokenizer_kwargs tokenize_kwargs
    max_question_len early_stopping pad_token_id return_text clean_up_tokenization_spaces add_special_tokens
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What any pipeline may be told: `batch_size` is how many inputs of a stream are read ahead."""

    batch_size: int | None = None


Chosen = TypeVar("Chosen", bound=Options)


class Pipeline(Generic[Chosen]):
    """What `pipeline` gives: a model, and a call as v4 has it for the task.

    A task names its options, the head it needs and the use whose skill it takes of a model with skills, and says how
    a list of inputs becomes results.
    """

    options: type[Chosen]
    head: str | None = None
    use: str | None = None

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model if self.use is None else model.able(self.use)
        self._given = options
        self._check()
        self._choose({})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def _check(self) -> None:
        """Refuse a model that cannot do the task."""
        if self.head is not None:
            check_head(self.model.network, self.head)

    def _results(self, inputs: Sequence[Any], options: Chosen) -> Iterable[Any]:
        """One result for each input, in order."""
        raise NotImplementedError

    def _choose(self, options: Mapping[str, Any]) -> Chosen:
        """Options of a call over those of the pipeline over the defaults."""
        known = [spec.name for spec in fields(self.options)]
        given = {**self._given, **options}
        for name in given:
            message = f"{name} is no option of this pipeline; it has {', '.join(known)}"
            require(name in known or name in _IGNORED, message, BadInput)
        return self.options(**{name: value for name, value in given.items() if name in known})

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """One result for a text or a dictionary, a list for a list or a column, an iterator for a stream."""
        chosen = self._choose(options)
        if isinstance(inputs, str | Mapping):
            (found,) = self._results([inputs], chosen)
            return found
        require(isinstance(inputs, Iterable | Dataset), f"Inputs are texts, not {type(inputs).__name__}.", BadInput)
        if isinstance(inputs, Sized) and not isinstance(inputs, Dataset):
            return list(self._results([plain(one) for one in inputs], chosen))  # type: ignore[attr-defined]
        ahead = chosen.batch_size or _AHEAD
        at_least_one("batch_size", ahead)
        if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
            # PyTorch's data sets with numbered items need not know when to stop
            inputs = map(inputs.__getitem__, range(len(inputs)))  # type: ignore[arg-type]
        return chain.from_iterable(self._results(chunk, chosen) for chunk in chunks(map(plain, inputs), ahead))


def at_least_one(name: str, value: int) -> None:
    """Refuse a number of things that is not 1 or more."""
    require(isinstance(value, int) and value > 0, f"{name}={value!r} must be 1 or more", BadInput)
