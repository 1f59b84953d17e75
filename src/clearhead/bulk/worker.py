"""One worker for every engine: columns in, columns out, in whichever process it finds itself."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clearhead.bulk.uses import USES, check_use, item_of, result_columns, text_columns
from clearhead.errors import BadInput, ClearheadError, require
from clearhead.hub.remote import CARD, checkpoint_files, find, unasked
from clearhead.io import file_digest
from clearhead.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

ERROR = "error"  # the column that says what is wrong with a row
# what is computed together, a function of the rows alone: characters, and what a row of nothing counts
_BATCH_CHARACTERS, _CHARACTERS_OF_A_ROW = 1 << 20, 128

Columns = dict[str, Any]


class Worker:
    """A use of a model on batches of columns, for engines that call it wherever they like: Ray, Daft, Spark, Dask.

    It is small to pickle: the model is loaded when it is first called, once in a process, which then computes with
    `threads`, and on a GPU in half precision if no `dtype` is named. The texts are in the columns `text` and `pair`,
    or in those that are usually called so. All columns of a batch are given back, or those that `keep` names, with
    those of the results, whose names begin with `result_prefix`, and "error", which is "" or says why a row has no
    result (then its vector is NaN, all else None).

    >>> from clearhead import Worker
    >>> worker = Worker("classify", skill="sentiment", keep=["id"])
    >>> worker({"id": [7, 8], "text": ["What a joy!", None]})["label"]
    ['positive', None]
    """

    def __init__(
        self,
        use: str,
        *,
        model: str | None = None,
        skill: str | None = None,
        text: str | None = None,
        pair: str | None = None,
        keep: Sequence[str] | None = None,
        result_prefix: str = "",
        device: str = "auto",
        dtype: str | None = None,
        threads: int = 1,
        **options: Any,
    ) -> None:
        self.use = use
        self.options = check_use(use, options)
        self.text, self.pair = text, pair
        self.keep = None if keep is None else list(keep)
        self.result_prefix = result_prefix
        self.threads = threads
        made_for = "generate" if self.options.get("abstractive") else use
        named = unasked(made_for) if model is None else _absolute(str(model))
        device = "cpu" if self.of_tokenizer else device
        self.source = _Source(named, None if skill is None else _absolute(str(skill)), device, dtype)
        require(threads > 0, f"threads={threads} compute nothing; give 1 or more", BadInput)
        self._ready: _Ready | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": None}

    def __repr__(self) -> str:
        return f"Worker({self.use!r}, model={self.source.model!r})"

    @property
    def of_tokenizer(self) -> bool:
        """Whether it has a tokenizer, and no model."""
        return USES[self.use].of_tokenizer

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all files that the model and its skills are made of, which takes seconds; or of the tokenizer."""
        folder = find(self.source.model)
        if self.of_tokenizer:
            return Tokenizer.from_folder(folder).digest
        files = {name: folder / name for name in checkpoint_files(folder)}
        files |= {one.relative_to(folder).as_posix(): one for one in folder.glob("skills/*/*")}
        if self.source.skill is not None and Path(self.source.skill).is_dir():
            files |= {f"skill/{one.name}": one for one in Path(self.source.skill).iterdir()}
        sha = hashlib.sha256()
        for name, path in sorted(files.items()):
            if path.is_file() and path.name != CARD:
                sha.update(f"{name} {file_digest(path)}\n".encode())
        return sha.hexdigest()

    @property
    def columns(self) -> list[str]:
        """The names of the columns that it adds."""
        return [self.result_prefix + name for name in (*result_columns(self.use, self.options), ERROR)]

    def __call__(self, batch: Mapping[str, Any]) -> Columns:
        """Columns of equal length (lists, NumPy arrays, Arrow arrays, series) -> columns with the results."""
        require(isinstance(batch, Mapping), f"give a dictionary of columns, not {type(batch).__name__}", BadInput)
        read = text_columns(self.use, list(batch), self.text, self.pair, "the batch")
        kept = list(batch) if self.keep is None else self.keep
        for name in kept:
            require(name in batch, f"the batch has no column {name!r} to keep; it has {', '.join(batch)}", BadInput)
        self.check_names(kept)
        rows = list(zip(*(_values(batch[name]) for name in read), strict=True))
        records, errors = self.run(read, rows)
        found = {name: batch[name] for name in kept}
        for name, kind in result_columns(self.use, self.options).items():
            values = [None if one is None else one[name] for one in records]
            found[self.result_prefix + name] = self.vectors(values) if kind == "vector" else values
        return found | {self.result_prefix + ERROR: [one or "" for one in errors]}

    def check_names(self, kept: Sequence[str]) -> None:
        """Refuse to lose a column to one of the results."""
        lost = [name for name in kept if name in self.columns]
        told = f"the column {''.join(lost[:1])!r} would be lost to one of the results"
        require(not lost, f"{told}; do not keep it, or give the results other names by result_prefix", BadInput)

    def load(self) -> "_Ready":
        """Load the model, once, and try the use on a small sample: what is wrong for all rows is raised here."""
        if self._ready is None:
            self._ready = _load(self.source, self.use, self.options, self.threads)
        return self._ready

    def vectors(self, values: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
        """One vector a row (rows, width), NaN (of bits 0) where there is none."""
        sample = self.load().vector
        blank = np.full(sample.shape, np.nan if sample.dtype.kind == "f" else 0, sample.dtype)
        return np.stack([blank if one is None else one for one in values]) if values else blank[None][:0]

    def run(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        stream: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[list[dict[str, Any] | None], list[str | None]]:
        """A record or an error for each row. `stream` makes what is sampled here another than with other numbers.

        What is computed together depends on these rows alone, so that the same rows give the same bits.
        """
        ready = self.load()
        from clearhead.data.batch import chunks  # with torch, which whoever hands out workers need not import

        items: list[Any] = []
        errors: list[str | None] = [None] * len(rows)
        for place, row in enumerate(rows):
            try:
                item = item_of(self.use, columns, row)
                ready.check(item)
                items.append((place, item))
            except BadInput as wrong:
                errors[place] = str(wrong)
        records: list[dict[str, Any] | None] = [None] * len(rows)
        for number, batch in enumerate(chunks(items, _BATCH_CHARACTERS, _weight)):
            options = {**self._drawn(stream, number), "progress": progress}
            for (place, _), found in zip(batch, self._each(ready, [item for _, item in batch], options), strict=True):
                if isinstance(found, ClearheadError):
                    errors[place] = str(found)
                else:
                    records[place] = found
        return records, errors

    def _drawn(self, stream: int | None, number: int) -> dict[str, Any]:
        """The options; a seed is that of the stream and the batch, since each would else begin with the same draws."""
        if stream is None or "seed" not in self.options:
            return self.options
        drawn = np.random.SeedSequence([self.options["seed"], stream, number]).generate_state(1)
        return {**self.options, "seed": int(drawn[0])}

    def _each(self, ready: "_Ready", items: list[Any], options: dict[str, Any]) -> Iterator[Any]:
        """A record for each item, or what is wrong with it: where all together are refused, each half by itself."""
        told, tell = 0, options["progress"]

        def progress(more: int) -> None:
            nonlocal told
            told += more
            tell(more)

        try:
            own = options | {"progress": None if tell is None else progress}
            yield from USES[self.use].call(ready.model, items, own)
        except ClearheadError as wrong:
            if told:
                tell(-told)
            if len(items) == 1:
                yield wrong
                return
            middle = len(items) // 2
            yield from self._each(ready, items[:middle], options)
            yield from self._each(ready, items[middle:], options)


def _absolute(name: str) -> str:
    """A folder by its whole path, since an engine's processes stand elsewhere; other names as they are."""
    with suppress(OSError, RuntimeError, ValueError):
        if (path := Path(name).expanduser()).is_dir():
            return str(path.absolute())
    return name


def _weight(item: tuple[int, Any]) -> int:
    return _CHARACTERS_OF_A_ROW + _characters(item[1])


def _characters(part: Any) -> int:
    return len(part) if isinstance(part, str) else sum(map(_characters, part))


def _values(column: Any) -> list[Any]:
    """A column of any library as Python's own values."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


# ---- the model, once in a process ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """Which model, and where it computes with which numbers."""

    model: str
    skill: str | None
    device: str
    dtype: str | None


@dataclass(frozen=True)
class _Ready:
    """A model that was tried on a use; `vector` is what a vector of it looks like, if that is what it gives."""

    model: "Model | Tokenizer"
    vector: NDArray[Any]
    check: Callable[[Any], object]  # refuses now what would else be refused with all that is computed beside it


_MODELS: dict[_Source, "Model"] = {}  # an engine may unpickle a worker for each of its batches
_LOADING = Lock()


def _load(source: _Source, use: str, options: dict[str, Any], threads: int) -> _Ready:
    with _LOADING:
        # as `clearhead` does where many texts come: see `expect_many` of cli/options.py
        for kept, count in (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"), ("LRU_CACHE_CAPACITY", "1")):
            os.environ.setdefault(kept, count)
        import torch

        device = pick_device(source.device)
        if device == "cpu":  # a GPU waits for the tokenizer, which may take all cores
            os.environ["RAYON_NUM_THREADS"] = str(threads)
        torch.set_num_threads(threads)
        if USES[use].of_tokenizer:
            return _Ready(Tokenizer.from_folder(find(source.model)), np.zeros(0, np.float32), _nothing)
        from clearhead.pipelines.model import load

        if source not in _MODELS:
            _MODELS[source] = load(source.model, skill=source.skill, device=device, dtype=source.dtype)
        model = _MODELS[source]
        sample = USES[use].sample
        check: Callable[[Any], object] = _nothing
        if use == "fill":
            sample = model.able("fill").tokenizer.special["mask"]
            check = partial(_has_mask, sample)
        elif use == "translate" and model.writes:
            from clearhead.pipelines.translation import told_languages

            check = told_languages(model.generator, options.get("src_lang"), options.get("tgt_lang"))[1]
        short = {"max_new_tokens": 1, "min_new_tokens": 0} if use == "generate" else {}
        (found,) = USES[use].call(model, [sample], {**options, **short})
        return _Ready(model, found.get("vector", np.zeros(0, np.float32)), check)


def _nothing(item: Any) -> object:
    """There is nothing to check."""


def _has_mask(mask: str, text: str) -> None:
    require(mask in text, f"There is no mask in {text[:60]!r}; write {mask} where a word is wanted.", BadInput)


def pick_device(named: str) -> str:
    """The device that is meant; "auto" is a GPU where there is one, and of several torchrun's own."""
    import torch

    if named != "auto":
        return named
    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
    return "mps" if torch.backends.mps.is_available() else "cpu"
