"""Sources and targets: parallel text, and T5's span corruption."""

# N packed tokens

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clearhead.data.batch import Batch, Ints
from clearhead.data.dataset import DatasetBuilder, ShuffledBatches, TokenizedDataset, ids_of
from clearhead.data.examples import PairExample
from clearhead.data.formats import read_pairs
from clearhead.data.rng import BatchSource, DerivedBatches, Stream, rng
from clearhead.errors import BadInput, require
from clearhead.io import content_suffix, read_lines
from clearhead.text.languages import Around
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
        left, right = map(read_lines, sources)
        told = f"{sources[0]} has {len(left)} lines, {sources[1]} has {len(right)}"
        require(len(left) == len(right), f"{told}; they must go line by line", BadInput)
        places = (f"{sources[0]}, line {number}" for number in range(1, len(left) + 1))
        pairs = list(map(PairExample, left, right, [None] * len(left), places))
    elif content_suffix(Path(sources[0])) in (".tsv", ".txt"):
        pairs = list(_columns(Path(sources[0]), first or "1", second or "2"))
    else:
        table = first is not None or Path(sources[0]).suffix in _TABLES or str(sources[0]).startswith("hub:")
        told = f"{sources[0]} is one file and no table"
        require(table, f"{told}; give two, line by line, or name its columns", BadInput)
        pairs = read_pairs(sources[0], first=first, second=second)
    found = [pair for pair in pairs if pair.first.strip() and pair.second.strip()]
    require(bool(found), f"{sources[0]} holds no pair of texts", BadInput)
    return found


def _columns(path: Path, *wanted: str) -> Iterator[PairExample]:
    for name in wanted:
        require(name.isdecimal() and int(name) > 0, f"{path} has columns 1, 2, …, none named {name!r}", BadInput)
    first, second = (int(name) - 1 for name in wanted)
    needed = max(first, second) + 1
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        told = f"{path}, line {number} has {len(fields)} columns between tabs"
        require(len(fields) >= needed, f"{told}; {needed} are needed", BadInput)
        yield PairExample(fields[first], fields[second], where=f"{path}, line {number}")


def encode_parallel(
    pairs: Sequence[PairExample],
    tokenizer: Tokenizer,
    *,
    length: int,
    targets: Tokenizer | None = None,
    around: tuple[Around, Around] | None = None,
) -> TokenizedDataset:
    """Tokenise pairs; `around` are the ids before and after each side, by default nothing and the end token.

    A side longer than `length` tokens, these included, is cut. `targets` is the tokenizer of the second sides, if they
    have one of their own with the same ids.
    """
    marks = around or (((), (tokenizer.sep_id,)),) * 2
    taken = max(len(before) + len(after) for before, after in marks)
    require(length > taken, f"Sentences of {length} tokens hold nothing beside the end; give {taken + 1} or more.")
    read = ids_of(tokenizer, [pair.first for pair in pairs])
    written = ids_of(targets or tokenizer, [pair.second for pair in pairs])
    builder, shortened = DatasetBuilder(tokenizer.template), 0
    for both in zip(read, written, strict=True):
        for sentence, (before, after) in zip(both, marks, strict=True):
            room = length - len(before) - len(after)
            shortened += len(sentence) > room
            builder.add_ids([*before, *sentence[:room], *after])
    if shortened:
        log.warning("%d sentences were longer than %d tokens and were cut.", shortened, length)
    return builder.build(members=np.arange(2 * len(pairs)).reshape(-1, 2), by_column=True)


class ParallelBatches(DerivedBatches):
    """A source (see `data.rng`) of packed pairs, at most `tokens` of both sides to a batch, like lengths together.

    A batch holds the targets; its `source` holds what they are translations of.
    """

    def __init__(self, encoded: TokenizedDataset, *, seed: int, tokens: int) -> None:
        self._plan = ShuffledBatches(encoded, seed=seed, tokens=tokens, grouped=True)
        self._sides = [replace(encoded, members=encoded.members[:, side : side + 1]) for side in (0, 1)]
        super().__init__(self._plan)

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: always the same one."""
        items = self._plan.items(index)
        source, target = (side.batch(items) for side in self._sides)
        return Batch(target.ids, target.layout, source=source)


@dataclass(frozen=True, kw_only=True)
class SpanCorruption:
    """How much is taken out, and in runs of what length on average: published values."""

    density: float = 0.15  # share of the tokens that is taken out, by spans
    span: float = 3.0  # tokens of one, on average

    def __post_init__(self) -> None:
        require(0 < self.density < 1, f"The density of spans is {self.density}; it must lie between 0 and 1.")
        require(self.span >= 1, f"Spans of {self.span} tokens are too short; give 1 or more.")

    def counts(self, length: int) -> tuple[int, int]:
        """How many tokens of a text are taken out, and in how many spans; of a single token nothing is."""
        if length < 2:
            return 0, 0
        out = min(max(round(length * self.density), 1), length - 1)
        return out, min(max(round(out / self.span), 1), length - out)


class SpanCorruptedBatches(DerivedBatches):
    """Another source's texts without some spans, as `source`, and the spans to be written, as the batch itself."""

    def __init__(
        self,
        source: BatchSource,
        tokenizer: Tokenizer,
        corruption: SpanCorruption | None = None,
        *,
        length: int,
        seed: int = 0,
    ) -> None:
        super().__init__(source)
        self._sentinels, self._end = sentinels(tokenizer), tokenizer.sep_id
        self._corruption, self._seed = corruption or SpanCorruption(), seed
        spans, there = self._corruption.counts(length)[1], len(self._sentinels)
        told = f"Texts of {length} tokens lose {spans} spans, but the tokenizer has {there} sentinels"
        require(spans <= there, f"{told}; choose shorter texts or longer spans.")

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        draw = rng(Stream.SPAN_CORRUPTION, self._seed, index)
        return corrupt(self.source.batch(index), self._sentinels, self._end, self._corruption, draw)


def sentinels(tokenizer: Tokenizer) -> list[int]:
    """The tokens that stand for spans, <extra_id_0> first."""
    found: list[int] = []
    while (token := tokenizer.token_to_id(f"<extra_id_{len(found)}>")) is not None:
        found.append(token)
    require(bool(found), "This tokenizer has no sentinels (<extra_id_0>, …); train one of kind t5.", BadInput)
    return found


def corrupt(
    batch: Batch, sentinels: Sequence[int], end: int, corruption: SpanCorruption, draw: np.random.Generator
) -> Batch:
    """Take spans out of each text of a batch: a text begins with what is kept and ends with a span, before its end."""
    kept, taken = [], []
    for ids in np.split(batch.ids.numpy(), np.cumsum(batch.layout.lengths)[:-1]):
        words = ids[ids != end]
        out, spans = corruption.counts(len(words))
        lengths = np.stack([parts_of(len(words) - out, spans, draw), parts_of(out, spans, draw)], 1).ravel()
        pieces = np.split(words, np.cumsum(lengths))
        marks = sentinels[:spans]
        kept.append([t for mark, run in zip(marks, pieces[0::2], strict=False) for t in (*run.tolist(), mark)])
        taken.append([t for mark, run in zip(marks, pieces[1::2], strict=False) for t in (mark, *run.tolist())])
        kept[-1] += [*(words.tolist() if not spans else []), end]
        taken[-1].append(end)
    return replace(Batch.of(taken), source=Batch.of(kept))


def parts_of(total: int, parts: int, draw: np.random.Generator) -> Ints:
    """Cut a length into parts of 1 or more, all ways being equally likely."""
    if not parts:
        return np.zeros(0, dtype=np.int64)
    cuts = np.sort(draw.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))
