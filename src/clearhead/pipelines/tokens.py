"""A vector for every token of a text, with the characters it stands for."""

# P pieces of a whole text · D width

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.embed import Vectors
from clearhead.pipelines.engine import Input, Progress, run
from clearhead.pipelines.inputs import windows_of_texts
from clearhead.pipelines.layers import Combine, LayerMix
from clearhead.text import Tokenizer, Window


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The pieces of a text, without special tokens: piece i is text[start:end] with (start, end) = offsets[i]."""

    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    vectors: Vectors  # (P, D)

    def over(self, start: int, end: int) -> slice:
        """The pieces that share a character with text[start:end]."""
        touched = [i for i, (first, last) in enumerate(self.offsets) if first < end and last > start]
        return slice(touched[0], touched[-1] + 1) if touched else slice(0)


def token_vectors(
    encoder: Any,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    layers: Sequence[int] = (-1,),
    combine: Combine = "mean",
    progress: Progress | None = None,
) -> Iterator[TokenVectors]:
    """The token vectors of each text, in order; of a long text, each token's from the window where it sees most."""
    reader = _PerToken(LayerMix(encoder, layers, combine))

    def results(chunk: list[str]) -> Iterator[TokenVectors]:
        cut = windows_of_texts(tokenizer, chunk, encoder.max_length)
        told = tokenizer.tells_capitals
        inputs = [[Input(one.encoding.ids, one.encoding.segments if told else ()) for one in item] for item in cut]
        for item, tables in zip(cut, run(reader, inputs, progress=progress), strict=True):
            yield _result(item, tables)

    return chain.from_iterable(map(results, chunks_of_text(texts)))


@dataclass(frozen=True)
class _PerToken:
    """Reads the chosen layers and keeps every token."""

    mix: LayerMix

    @property
    def module(self) -> Any:
        """The encoder."""
        return self.mix.encoder

    def forward(self, batch: Batch) -> Tensor:
        """Packed batch -> (N, D)."""
        return self.mix(batch)

    def divide(self, out: Tensor, batch: Batch) -> Sequence[Tensor]:
        """(N, D) -> a table for each sequence."""
        return batch.layout.split(out)


def _result(item: list[Window], tables: list[Tensor]) -> TokenVectors:
    parts = [(one.encoding, position) for one in item for position in one.best]
    rows = torch.cat([table[one.best.start : one.best.stop] for one, table in zip(item, tables, strict=True)])
    offsets = tuple(span for encoding, i in parts if (span := encoding.offsets[i]) is not None)
    return TokenVectors(tuple(encoding.tokens[i] for encoding, i in parts), offsets, rows.numpy())
