"""Feature extraction: a head learns from features of a frozen encoder, which are computed once and kept in a file."""

# N packed tokens · S sequences

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.data.dataset import TokenizedDataset
from clearhead.errors import BadInput, NotFound, require
from clearhead.hub.features import HEADS, FeatureHead
from clearhead.hub.skills import encoder_digest
from clearhead.io import Progress, read_object, write_text
from clearhead.nn.features import LayerFeatures, Mix
from clearhead.nn.heads import Network, Pooling
from clearhead.nn.hooks import evaluating
from clearhead.nn.layout import Layout
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import per_token, run
from clearhead.text.packed import Sequences

FEATURES = "features.npy"
_DROPOUT = 0.1  # of the head, unless the recipe says
_AT_ONCE = 256  # sequences that are run together, so that little is held in full precision
_SAMPLE = 20_000  # tokens whose mean and deviation are taken, or somewhat more


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """What a head on a frozen encoder reads, and what it is; the default was the best of BERT's paper but one."""

    layers: tuple[int, ...] = (-4, -3, -2, -1)  # from 0, the embeddings, or from -1, the last
    combine: Mix = "sum"  # mean, sum, concat, or weighted: in shares that are learnt
    lstm: int | None = None  # width of each direction of a two-layer BiLSTM; None is a linear map
    pooling: Pooling = "mean"  # classify, without an LSTM: mean, first ([CLS]), max or weighted

    def __post_init__(self) -> None:
        require(self.lstm is None or self.lstm >= 1, f"lstm must be at least 1, got {self.lstm}; 128 or 256 is usual")


class Table(nn.Module):
    """In the place of an encoder: ids are rows of what its layers said, which is neither trained nor saved."""

    def __init__(self, rows: Tensor, features: LayerFeatures) -> None:
        super().__init__()
        self.rows: Tensor
        self.register_buffer("rows", rows, persistent=False)
        self.features = features  # whose mix is learnt

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Rows (N,) -> features (N, F)."""
        return self.features(self.rows[ids])


def with_frozen(model: Model, head: str | None, frozen: Frozen, dropout: float | None) -> Model:
    """The model with a fresh head of this name that reads several layers of its encoder."""
    fits = head in HEADS
    require(
        fits,
        "--frozen is for classify, label, regress, tag and summarise, whose heads read features; leave it out",
        BadInput,
    )
    outputs = model.network.heads[head].get_parameter("classifier.weight").shape[0]
    described = FeatureHead(
        head=str(head),
        outputs=outputs,
        layers=frozen.layers,
        combine=frozen.combine,
        lstm=frozen.lstm,
        pooling=frozen.pooling,
    )
    network = described.build(model.encoder, _DROPOUT if dropout is None else dropout).to(model.device)
    network.encoder.requires_grad_(False)
    return Model(replace(model.checkpoint, network=network.eval()))


def on_features(
    model: Model, encoded: TokenizedDataset, file: Path, *, device: str, progress: Progress | None
) -> tuple[Model, TokenizedDataset]:
    """What is trained in the place of model and data: the same head on a table of features, and rows of that table.

    The table is kept in `file` for runs that go on, and for those of other seeds; `progress` counts tokens.
    """
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    require(alone, "a head on frozen features is trained by one process; start it without torchrun", BadInput)
    features = model.network.features
    rows = _cached(model, encoded, features, file, device, progress)
    features.standardise(rows[:: max(len(rows) // _SAMPLE, 1)])
    learner = Model(
        replace(model.checkpoint, network=Network(Table(rows, features), dict(model.network.heads.items())))
    )
    numbers = np.arange(encoded.tokens, dtype=np.int32)
    return learner, replace(encoded, ids=numbers, segments=None)


def _cached(
    model: Model,
    encoded: TokenizedDataset,
    features: LayerFeatures,
    file: Path,
    device: str,
    progress: Progress | None,
) -> Tensor:
    """The layers' vectors of all tokens, read from the file where they are these, else computed into it."""
    sha = hashlib.sha256(f"{encoder_digest(model.encoder)} {features.layers} {features.combine}".encode())
    for column in (encoded.ids, encoded.offsets, encoded.segments):
        sha.update(b"" if column is None else np.ascontiguousarray(column).data)
    note = file.with_suffix(".json")
    if _made_of(note) != sha.hexdigest() or not file.is_file():
        note.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        _compute(model.to(device), encoded, features, file, progress)
        write_text(f'{{"made_of": "{sha.hexdigest()}"}}\n', note, overwrite=True)
    # copied where it is written to, which nobody does: torch has no tensors that cannot be
    rows: NDArray[Any] = np.load(file, mmap_mode="c")
    return torch.from_numpy(rows)


def _made_of(note: Path) -> str | None:
    try:
        return str(read_object(note).get("made_of"))
    except (NotFound, BadInput):
        return None


def _compute(
    model: Model, encoded: TokenizedDataset, features: LayerFeatures, file: Path, progress: Progress | None
) -> None:
    def choose(batch: Batch) -> Tensor:
        return features.choose(model.encoder, batch.ids, batch.layout, batch.segments)

    table = None
    count = len(encoded.offsets) - 1
    with torch.no_grad(), evaluating(model.encoder):
        for start in range(0, count, _AT_ONCE):
            offsets = encoded.offsets[start : min(start + _AT_ONCE, count) + 1]
            span = slice(int(offsets[0]), int(offsets[-1]))
            kinds = None if encoded.segments is None else encoded.segments[span].astype(np.int64)
            sequences = Sequences(encoded.ids[span].astype(np.int64), offsets - offsets[0], kinds)
            rows = run(model.encoder, choose, per_token, sequences).half().numpy()
            if table is None:
                table = np.lib.format.open_memmap(file, "w+", rows.dtype, (encoded.tokens, *rows.shape[1:]))
            table[span] = rows
            if progress is not None:
                progress(len(rows))
    if table is not None:
        table.flush()
