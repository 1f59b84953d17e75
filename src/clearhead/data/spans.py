"""Span corruption (Raffel et al. 2019, section 3.1.4): runs of tokens are taken out, and are to be written.

Thank you for inviting me to your party last week  ->  Thank you <X> me to your party <Y> week
                                                       <X> for inviting <Y> last
"""

# n tokens of a text

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clearhead.data.batch import Batch
from clearhead.data.shards import Ints
from clearhead.data.source import Derived, Source, rng
from clearhead.errors import BadInput, require
from clearhead.text.tokenizer import Tokenizer

_DRAW = 5  # keeps these draws apart from the other draws of a batch


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """How much is taken out, and in runs of what length on average: published values."""

    density: float = 0.15
    span: float = 3.0

    def __post_init__(self) -> None:
        require(0 < self.density < 1, f"The density of spans is {self.density}; it must lie between 0 and 1.")
        require(self.span >= 1, f"Spans of {self.span} tokens are too short; give 1 or more.")

    def counts(self, length: int) -> tuple[int, int]:
        """How many tokens of a text are taken out, and in how many spans; of a single token nothing is."""
        if length < 2:
            return 0, 0
        out = min(max(round(length * self.density), 1), length - 1)
        return out, min(max(round(out / self.span), 1), length - out)


class Corrupted(Derived):
    """Another source's texts without some spans, as `source`, and the spans to be written, as the batch itself."""

    def __init__(
        self, source: Source, tokenizer: Tokenizer, corruption: Corruption | None = None, *, length: int, seed: int = 0
    ) -> None:
        super().__init__(source)
        self._sentinels, self._end = sentinels(tokenizer), tokenizer.sep_id
        self._corruption, self._seed = corruption or Corruption(), seed
        spans = self._corruption.counts(length)[1]
        require(
            spans <= len(self._sentinels),
            f"Texts of {length} tokens lose {spans} spans, but the tokenizer has {len(self._sentinels)} sentinels; "
            "choose shorter texts or longer spans.",
        )

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        draw = rng(self._seed, index, _DRAW)
        return corrupt(self.source.batch(index), self._sentinels, self._end, self._corruption, draw)


def sentinels(tokenizer: Tokenizer) -> list[int]:
    """The tokens that stand for spans, <extra_id_0> first."""
    found: list[int] = []
    while (token := tokenizer.token_to_id(f"<extra_id_{len(found)}>")) is not None:
        found.append(token)
    require(bool(found), "This tokenizer has no sentinels (<extra_id_0>, …); train one of kind t5.", BadInput)
    return found


def corrupt(
    batch: Batch, sentinels: Sequence[int], end: int, corruption: Corruption, draw: np.random.Generator
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
