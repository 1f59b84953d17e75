"""Running text for language models: document after document in one row, cut into sequences of one length."""

# N packed tokens

from functools import lru_cache

import numpy as np
import torch

from clearhead.data.batch import Batch
from clearhead.data.shards import Ints, Shards
from clearhead.data.source import order
from clearhead.data.wrapping import require_same
from clearhead.errors import BadInput, require
from clearhead.nn.layout import Packed
from clearhead.text.tokenizer import Tokenizer


class RunningText:
    """Sequences of exactly `length` tokens, with target `next` (N,): the token after each, of the last one too.

    Documents follow one another in the order of the epoch, each with the tokens that the tokenizer puts round a text;
    where it puts none after it, as GPT-2's, the end token stands between two. Nothing is lost at a cut.
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        tokens: int = 16_384,
        length: int = 128,
        seed: int = 0,
        split: str = "train",
        held_out: float = 0.005,
    ) -> None:
        require_same(shards, tokenizer)
        require(length >= 1, f"Sequences of {length} tokens are empty; give 1 or more.", BadInput)
        require(tokens >= length, f"Batches of {tokens} tokens cannot hold sequences of {length}.", BadInput)
        self.length, self.tokens = length, tokens // length * length
        self._shards = shards
        self._before, self._after = round_a_document(tokenizer)
        documents = shards.split(split, held_out)
        self._starts = shards.document_starts[documents]
        self._lengths = shards.document_starts[documents + 1] - self._starts
        self._epoch_tokens = int(self._lengths.sum()) + len(documents) * (len(self._before) + len(self._after))
        self._epoch = lru_cache(maxsize=2)(lambda epoch: self._lay_out(order(len(documents), seed, epoch)))

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: the tokens from `index * tokens` on of all epochs laid end to end."""
        row = self._row(index * self.tokens, (index + 1) * self.tokens + 1)
        layout = Packed.of([self.length] * (self.tokens // self.length))
        return Batch(torch.from_numpy(row[:-1]), layout, targets={"next": torch.from_numpy(row[1:])})

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs fill, at least one."""
        return max(int(epochs * self._epoch_tokens / self.tokens), 1)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return index * self.tokens / self._epoch_tokens

    def _row(self, start: int, stop: int) -> Ints:
        parts = []
        while start < stop:
            epoch, inner = divmod(start, self._epoch_tokens)
            until = min(inner + stop - start, self._epoch_tokens)
            parts.append(self._part(epoch, inner, until))
            start += until - inner
        return np.concatenate(parts)

    def _part(self, epoch: int, start: int, stop: int) -> Ints:
        """Read places `start` to `stop` of an epoch's row."""
        documents, ends = self._epoch(epoch)
        chosen = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop, "left") + 1)
        numbers, lengths = documents[chosen], self._lengths[documents[chosen]]
        text = ends[chosen] - len(self._after) - lengths  # where the words of each document begin in the row
        first, last = (np.clip(edge - text, 0, lengths) for edge in (start, stop))
        row = np.full(stop - start, -1, dtype=np.int64)
        for i, token in enumerate(self._before):
            _put(row, text - len(self._before) + i - start, token)
        for i, token in enumerate(self._after):
            _put(row, text + lengths + i - start, token)
        row[row < 0] = self._shards.gather(self._starts[numbers] + first, last - first)
        return row

    def _lay_out(self, documents: Ints) -> tuple[Ints, Ints]:
        return documents, np.cumsum(self._lengths[documents] + len(self._before) + len(self._after))


def round_a_document(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens before and after a document; there is always one after it."""
    before, after = tokenizer.template.round_one
    return before, after or (tokenizer.sep_id,)


def _put(row: Ints, places: Ints, token: int) -> None:
    row[places[(places >= 0) & (places < len(row))]] = token
