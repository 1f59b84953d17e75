"""What a frozen encoder says of words, computed once: hidden states of every layer, and the mixes made of them."""

# N packed tokens · W words of all sentences · K layers, the embeddings among them · D width

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.data.encode import encode_tags
from clearhead.data.examples import WordsExample
from clearhead.errors import BadInput, require
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Layout
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import Input, run

_WINDOWS = 256  # run at a time, so that little is held in full precision
_MEASURED = 20_000  # words, or somewhat more

# as Devlin et al. 2018 (table 7) have them; "all" are all layers without the embeddings
MIXES: dict[str, Callable[[Tensor], Tensor]] = {
    "embeddings": lambda states: states[:, 0],
    "last": lambda states: states[:, -1],
    "sum of all": lambda states: states[:, 1:].sum(1, dtype=torch.float32),
    "second-to-last": lambda states: states[:, -2],
    "sum of last four": lambda states: states[:, -4:].sum(1, dtype=torch.float32),
    "concat of last four": lambda states: states[:, -4:].flatten(1),
}


def word_states(model: Model, examples: Sequence[WordsExample]) -> Tensor:
    """Give the hidden states of each word's first piece: (W, K, D) in float16, on the CPU.

    Long sentences are read in windows, each word where it sees most; a word without pieces has zeros.
    """
    windows = encode_tags(examples, model.tokenizer, length=model.encoder.max_length)
    encoded, reader = windows.encoded, _Layers(model.encoder)
    before = np.cumsum(windows.sizes) - windows.sizes  # words of the sentences before
    found = torch.zeros(int(windows.sizes.sum()), len(model.encoder.blocks) + 1, model.encoder.width).half()
    for start in range(0, len(encoded), _WINDOWS):
        chosen = range(start, min(start + _WINDOWS, len(encoded)))
        spans = [slice(encoded.offsets[i], encoded.offsets[i + 1]) for i in chosen]
        kinds = [() if encoded.segments is None else encoded.segments[span].tolist() for span in spans]
        inputs = [[Input(encoded.ids[span].tolist(), kind)] for span, kind in zip(spans, kinds, strict=True)]
        for i, span, (states,) in zip(chosen, spans, run(reader, inputs), strict=True):
            words = windows.words[span]
            places = before[windows.owners[i]] + words[words >= 0]
            found[torch.from_numpy(places)] = states[torch.from_numpy(words >= 0)].half()
    return found


def mix(states: Tensor, name: str) -> Tensor:
    """Make the features of one mix (see MIXES) out of (W, K, D): (W, D), or (W, 4 D) where layers are concatenated."""
    require(name in MIXES, f"there is no mix {name!r}; choose one of {', '.join(MIXES)}", BadInput)
    layers = states.shape[1] - 1
    require("four" not in name or layers >= 4, f"{name!r} needs 4 layers, this model has {layers}", BadInput)
    return MIXES[name](states)


class FrozenWords(nn.Module):
    """In the place of an encoder: ids are rows of a table of features, which is neither trained nor saved.

    What comes out is standardised by a mean and a deviation, (D,) each.
    """

    def __init__(self, features: Tensor, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.features: Tensor
        self.mean: Tensor
        self.deviation: Tensor
        for name, value in (("features", features.half()), ("mean", mean), ("deviation", deviation)):
            self.register_buffer(name, value, persistent=False)

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Rows (W,) -> features (W, D)."""
        return (self.features[ids].float() - self.mean) / self.deviation


def mean_and_deviation(features: Tensor) -> tuple[Tensor, Tensor]:
    """Measure each feature, (D,) and (D,), over a share of the words: all of them in float32 may be too large."""
    some = features[:: max(len(features) // _MEASURED, 1)].float()
    return some.mean(0), some.std(0, correction=0).clamp(min=1e-6)


@dataclass(frozen=True)
class _Layers:
    """Reads all layers at every token."""

    module: Any

    def forward(self, batch: Batch) -> Tensor:
        """Packed batch -> (N, K, D)."""
        return torch.stack(hidden_states(self.module, batch.ids, batch.layout, batch.segments), 1)

    def divide(self, out: Tensor, batch: Batch) -> Sequence[Tensor]:
        """(N, K, D) -> one table for each sequence."""
        return batch.layout.split(out)
