"""Runs of tokens out of shards become model inputs: special tokens round one text or two, many sequences at once."""

from collections.abc import Sequence

import numpy as np

from clearhead.data.shards import Ints, Shards
from clearhead.errors import BadInput, require
from clearhead.text.template import Layout, Special
from clearhead.text.tokenizer import Tokenizer

Runs = tuple[Ints, Ints]  # where each run starts among the tokens, and how long it is


def wrap(shards: Shards, layout: Layout, texts: Sequence[Runs]) -> tuple[Ints, Ints, Ints]:
    """Lay out many sequences; texts[p] are the runs of part p. Gives ids (N,), segments (N,) and lengths (B,)."""
    count = len(texts[0][0])
    one = np.ones(count, dtype=np.int64)
    # (B, items): how long each item of the layout is in each sequence
    lengths = np.stack([one if isinstance(item, Special) else texts[item.part][1] for item in layout], axis=1)
    starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
    ids = np.empty(lengths.sum(), dtype=np.int64)
    for i, item in enumerate(layout):
        if isinstance(item, Special):
            ids[starts[:, i]] = item.id
    slots = [i for i, item in enumerate(layout) if not isinstance(item, Special)]
    parts = [texts[item.part] for item in layout if not isinstance(item, Special)]
    content = np.ones(len(ids), dtype=bool)
    content[np.delete(starts, slots, axis=1)] = False
    # row by row, so that the runs lie in the order of the sequences
    ids[content] = shards.gather(*(np.stack(runs, axis=1).ravel() for runs in zip(*parts, strict=True)))
    segments = np.repeat(np.tile([item.segment for item in layout], count), lengths.ravel())
    return ids, segments, lengths.sum(axis=1)


def require_same(shards: Shards, tokenizer: Tokenizer) -> None:
    """Refuse ids that mean something else to this tokenizer."""
    require(
        shards.manifest["made_of"]["tokenizer"] == tokenizer.digest,
        f"The shards in {shards.folder} were made with another tokenizer; tokenise the corpus again.",
        BadInput,
    )
