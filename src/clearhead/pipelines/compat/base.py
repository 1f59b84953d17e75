"""What every drop-in pipeline shares: its options, those of a call, and how inputs are fed."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Generic, Self, TypeVar

import torch
from torch.utils.data import Dataset, IterableDataset

from clearhead.data.batch import chunks
from clearhead.errors import BadInput, check_options, require
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import check_head, listed, plain
from clearhead.text import Tokenizer

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


class PipelineConfig:
    """A model's configuration by the names of transformers: its own fields, and the labels."""

    def __init__(self, model: Model) -> None:
        head = next((head for name, head in _heads(model) if name in ("classes", "tags")), None)
        outputs = 0 if head is None else head.get_parameter("classifier.weight").shape[0]
        names = model.labels or tuple(f"LABEL_{i}" for i in range(outputs))
        self._own = model.config
        self.model_type = model.family
        self.id2label = dict(enumerate(names))
        self.label2id = {name: i for i, name in enumerate(names)}
        self.num_labels = len(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"], name)


def _heads(model: Model) -> Iterable[tuple[str, Any]]:
    return model.network.heads.items() if hasattr(model.network, "heads") else ()


class PipelineModel(Model):
    """The model of a pipeline: the very one that was given, with a `config` as transformers has it."""

    @classmethod
    def of(cls, model: Model) -> Self:
        """The same model: what one of the two reads or changes, both have."""
        same = cls.__new__(cls)
        same.__dict__ = model.__dict__
        return same

    def __reduce__(self) -> tuple[Any, ...]:
        plain = Model.__new__(Model)
        plain.__dict__ = self.__dict__
        return PipelineModel.of, (plain,)

    @property
    def config(self) -> Any:
        """The configuration, with id2label, label2id and num_labels."""
        return PipelineConfig(Model(self.checkpoint))


class Pipeline(Generic[Chosen]):
    """What `pipeline` gives: a model, and a call as v4 has it for the task.

    A task names its options, the head it needs and the use whose skill it takes of a model with skills, and says how
    a list of inputs becomes results. `task` is the name it was asked for by.
    """

    options: type[Chosen]
    head: str | None = None
    use: str | None = None

    def __init__(self, model: Model, task: str = "", **options: Any) -> None:
        self.model = PipelineModel.of(model if self.use is None else model.able(self.use))
        self.task = task
        self._given = options
        self._check()
        self._choose({})

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self.model.tokenizer

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        """What the model computes with."""
        return next(iter(self.model.network.parameters())).dtype

    torch_dtype = dtype  # as v4 calls it
    framework = "pt"

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
        check_options([name for name in given if name not in _IGNORED], known, "this pipeline")
        return self.options(**{name: value for name, value in given.items() if name in known})

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """One result for a text or a dictionary, a list for a list or a column, an iterator for a stream."""
        chosen = self._choose(options)
        if isinstance(inputs, str | Mapping):
            (found,) = self._results([inputs], chosen)
            return found
        require(isinstance(inputs, Iterable | Dataset), f"Inputs are texts, not {type(inputs).__name__}.", BadInput)
        listed(inputs)  # a whole table is none
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
