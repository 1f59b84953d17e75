"""Plain text for pre-training: batches of exactly as many tokens as asked for, without padding."""

# B sequences · N packed tokens

from functools import lru_cache

import numpy as np
import torch

from clearhead.data.batch import Batch
from clearhead.data.shards import Ints, Shards, spread
from clearhead.data.source import order, rng
from clearhead.data.wrapping import require_same, wrap
from clearhead.errors import BadInput, require
from clearhead.nn.layout import Packed
from clearhead.text.tokenizer import Tokenizer

_SHORT = 0.1  # share of the sequences that are cut in two, as BERT's own data had short ones
_DRAW = 3  # keeps this draw apart from the order of an epoch, from those of pairs and of masks


class PackedText:
    """Documents cut into sequences of at most `length` tokens with the special tokens, every batch of exactly `tokens`.

    All sequences of an epoch, in its order, form one row that is cut every `tokens`. A sequence on a cut becomes one
    at the end of a batch and one at the start of the next; the special tokens at the cut take the place of as many
    tokens of text, which is all that is lost. What a cut leaves of a sequence may be special tokens alone. One sequence
    in ten is cut in two anywhere, because texts to be fine-tuned on are short.
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        tokens: int = 65_536,
        length: int = 512,
        seed: int = 0,
        split: str = "train",
        held_out: float = 0.005,
    ) -> None:
        require_same(shards, tokenizer)
        self.tokens = tokens
        self._shards = shards
        self._layout = tokenizer.template.single
        self._specials = tokenizer.template.specials(pair=False)
        room = length - self._specials
        require(room > 0, f"Sequences of {length} tokens have no room beside {self._specials} special ones.", BadInput)
        require(tokens >= length, f"Batches of {tokens} tokens cannot hold sequences of {length}.", BadInput)
        documents = shards.split(split, held_out)
        self._starts, self._lengths = _some_in_two(*_pieces(shards, documents, room), seed)
        self._epoch_tokens = int(self._lengths.sum()) + self._specials * len(self._lengths)
        self._epoch = lru_cache(maxsize=2)(lambda epoch: self._lay_out(order(len(self._starts), seed, epoch)))

    def batch(self, index: int) -> Batch:
        """Make batch number `index`: the tokens from `index * tokens` on of all epochs laid end to end."""
        starts, lengths = [], []
        before = after = 0  # special tokens that the cuts leave out
        position, stop = index * self.tokens, (index + 1) * self.tokens
        while position < stop:
            epoch, inner = divmod(position, self._epoch_tokens)
            until = min(inner + stop - position, self._epoch_tokens)
            pieces, ends = self._epoch(epoch)
            first, last = np.searchsorted(ends, inner, "right"), np.searchsorted(ends, until, "left")
            chosen = pieces[first : last + 1]
            start, length = self._starts[chosen], self._lengths[chosen]
            if (left := int(ends[first] - inner)) < length[0] + self._specials:
                kept = max(left - self._specials, 0)
                start[0] += length[0] - kept
                length[0], before = kept, max(self._specials - left, 0)
            if over := int(ends[last] - until):
                left = length[-1] + self._specials - over
                length[-1], after = max(left - self._specials, 0), max(self._specials - left, 0)
            starts.append(start)
            lengths.append(length)
            position += until - inner
        ids, _, sizes = wrap(self._shards, self._layout, [(np.concatenate(starts), np.concatenate(lengths))])
        sizes[0] -= before
        sizes[-1] -= after
        return Batch(torch.from_numpy(ids[before : len(ids) - after]), Packed.of(sizes.tolist()))

    def batches_in(self, epochs: float) -> int:
        """How many batches this many epochs fill, at least one."""
        return max(int(epochs * self._epoch_tokens / self.tokens), 1)

    def epoch_of(self, index: int) -> float:
        """How many epochs have gone by before batch `index`."""
        return index * self.tokens / self._epoch_tokens

    def _lay_out(self, pieces: Ints) -> tuple[Ints, Ints]:
        return pieces, np.cumsum(self._lengths[pieces] + self._specials)


def _pieces(shards: Shards, documents: Ints, room: int) -> tuple[Ints, Ints]:
    """Cut documents every `room` tokens: where each piece starts among the tokens, and how long it is."""
    first, end = shards.document_starts[documents], shards.document_starts[documents + 1]
    counts = -(-(end - first) // room)
    starts = np.repeat(first, counts) + spread(counts) * room
    return starts, np.minimum(np.repeat(end, counts) - starts, room)


def _some_in_two(starts: Ints, lengths: Ints, seed: int) -> tuple[Ints, Ints]:
    """Cut every tenth piece of more than one token, drawn at random, in two at a random place."""
    draw = rng(seed, _DRAW)
    cut = np.flatnonzero((draw.random(len(starts)) < _SHORT) & (lengths > 1))
    front = draw.integers(1, lengths[cut])
    kept = lengths.copy()
    kept[cut] = front
    return np.insert(starts, cut + 1, starts[cut] + front), np.insert(kept, cut + 1, lengths[cut] - front)
