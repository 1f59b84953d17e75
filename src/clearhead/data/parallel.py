"""Sentences and their translations: two files line by line, or one table, as packed batches by a budget of tokens."""

# B pairs · N packed tokens

import logging
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batch import Batch
from clearhead.data.encoded import Encoded, ids_of
from clearhead.data.examples import PairExample
from clearhead.data.finetuning import FineTuning
from clearhead.data.readers import read_pairs
from clearhead.data.source import Derived
from clearhead.errors import BadInput, require
from clearhead.text.streams import kind, read_lines
from clearhead.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_TABLES = (".csv", ".json", ".jsonl", ".parquet")


def read_parallel(
    sources: Sequence[str | Path], *, first: str | None = None, second: str | None = None
) -> list[PairExample]:
    """Read pairs (source, target) from two files, line by line, or from one table.

    A .tsv table has no header: its columns are named "1", "2", … and the first two are meant. In other tables (csv,
    json, jsonl, parquet, hub) columns have names. A pair with an empty side is left out.
    """
    require(len(sources) in (1, 2), f"{len(sources)} files are not parallel text; give two, or one table", BadInput)
    if len(sources) == 2:
        named = first or second
        require(named is None, f"two files have no columns, such as {named!r}; leave --text and --pair out", BadInput)
        left, right = (read_lines(Path(source)) for source in sources)
        require(
            len(left) == len(right),
            f"{sources[0]} has {len(left)} lines, {sources[1]} has {len(right)}; they must go line by line",
            BadInput,
        )
        pairs = list(map(PairExample, left, right))
    elif kind(Path(sources[0])) in (".tsv", ".txt"):
        pairs = list(_columns(Path(sources[0]), first or "1", second or "2"))
    else:
        table = Path(sources[0]).suffix in _TABLES or str(sources[0]).startswith("hub:")
        require(
            table or first is not None,
            f"{sources[0]} is one file and no table; give two, line by line, or name its columns",
            BadInput,
        )
        pairs = read_pairs(sources[0], first=first, second=second)
    found = [pair for pair in pairs if pair.first.strip() and pair.second.strip()]
    require(bool(found), f"{sources[0]} holds no pair of texts", BadInput)
    return found


def encode_parallel(
    pairs: Sequence[PairExample], tokenizer: Tokenizer, *, length: int, targets: Tokenizer | None = None
) -> Encoded:
    """Tokenise pairs; each side ends with the end token and begins with none.

    A side longer than `length` tokens, the end included, is cut. `targets` is the tokenizer of the second
    sides, if they have one of their own with the same ids.
    """
    require(length >= 2, f"Sentences of {length} tokens hold nothing beside the end; give 2 or more.")
    read = ids_of(tokenizer, [pair.first for pair in pairs])
    written = ids_of(targets or tokenizer, [pair.second for pair in pairs])
    ids, ends, shortened = array("i"), [0], 0
    for sentence in chain.from_iterable(zip(read, written, strict=True)):
        shortened += len(sentence) >= length
        ids.extend(sentence[: length - 1])
        ids.append(tokenizer.sep_id)
        ends.append(len(ids))
    if shortened:
        log.warning("%d sentences were longer than %d tokens and were cut.", shortened, length)
    members = np.arange(2 * len(pairs)).reshape(-1, 2)
    offsets = np.array(ends, dtype=np.int64)
    return Encoded(np.frombuffer(ids, dtype=np.int32), offsets, None, members, by_column=True)


class Parallel(Derived):
    """A source (see `data.source`) of packed pairs, at most `tokens` of both sides to a batch, like lengths together.

    A batch holds the targets; its `source` holds what they are translations of.
    """

    def __init__(self, encoded: Encoded, *, seed: int, tokens: int) -> None:
        self._plan = FineTuning(encoded, seed=seed, tokens=tokens, grouped=True)
        super().__init__(self._plan)

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""
        return pair_batch(self._plan.encoded, self._plan.items(index))


def pair_batch(encoded: Encoded, items: NDArray[np.int64]) -> Batch:
    """Gather these pairs: the targets, packed, with their sources."""
    source, target = (_side(encoded, side).batch(items) for side in (0, 1))
    return Batch(target.ids, target.layout, source=source)


def _side(encoded: Encoded, side: int) -> Encoded:
    return Encoded(encoded.ids, encoded.offsets, None, encoded.members[:, side : side + 1])


def _columns(path: Path, *wanted: str) -> Iterator[PairExample]:
    for name in wanted:
        require(name.isdecimal() and int(name) > 0, f"{path} has columns 1, 2, …, none named {name!r}", BadInput)
    first, second = (int(name) - 1 for name in wanted)
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        require(
            len(fields) > max(first, second),
            f"{path}, line {number} has {len(fields)} columns between tabs; {max(first, second) + 1} are needed",
            BadInput,
        )
        yield PairExample(fields[first], fields[second])
