"""`pipeline("feature-extraction")`: the hidden states of every token."""

# T tokens of a text · D width

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.dropin.calls import Options, feed, settle
from clearhead.pipelines.engine import Input, run
from clearhead.pipelines.inputs import windows_of_texts
from clearhead.pipelines.model import Model
from clearhead.text import Window


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureOptions(Options):
    """`return_tensors`: a tensor (1, T, D) for each text, not nested lists."""

    return_tensors: bool | None = None


class FeatureExtraction:
    """Nested lists (1, T, D): the last hidden state of every token of a text, special tokens included.

    v4 fails on a text longer than the model, or truncates it when told to; here it is read in windows, each token
    where it sees most.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self._said = options
        settle(FeatureOptions, options)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Read one text, many, or a stream."""
        chosen = settle(FeatureOptions, self._said, options)
        return feed(inputs, lambda texts: self._results(texts, chosen), chosen)

    def _results(self, texts: Sequence[str], chosen: FeatureOptions) -> Iterator[Any]:
        reader = _Hidden(self.model.encoder)
        for chunk in chunks_of_text(texts):
            cut = windows_of_texts(self.model.tokenizer, chunk, self.model.encoder.max_length)
            inputs = [[Input(one.encoding.ids, one.encoding.segments) for one in item] for item in cut]
            for item, tables in zip(cut, run(reader, inputs), strict=True):
                hidden = _joined(item, tables)[None]
                yield hidden if chosen.return_tensors else hidden.tolist()


@dataclass(frozen=True)
class _Hidden:
    """Reads the encoder alone."""

    module: Any

    def forward(self, batch: Batch) -> Tensor:
        """Packed batch -> (N, D)."""
        return self.module(batch.ids, batch.layout, batch.segments)

    def divide(self, out: Tensor, batch: Batch) -> Sequence[Tensor]:
        """(N, D) -> one table for each sequence."""
        return batch.layout.split(out)


def _joined(windows: Sequence[Window], tables: Sequence[Tensor]) -> Tensor:
    """Hidden states of a text's windows -> (T, D): the special tokens of the outer windows, each piece once."""
    best = [table[one.best.start : one.best.stop] for one, table in zip(windows, tables, strict=True)]
    return torch.cat([tables[0][: windows[0].passage.start], *best, tables[-1][windows[-1].passage.stop :]])
