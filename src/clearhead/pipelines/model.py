"""The model a user holds: an encoder, its heads and its tokenizer, with one method per use."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import BadInput, NotFound, require
from clearhead.hub.card import model_card
from clearhead.hub.config import Description, read_config
from clearhead.hub.folder import Checkpoint, build_network, read_folder, write_folder
from clearhead.hub.remote import find, publish
from clearhead.models import FAMILIES
from clearhead.nn.heads import Pooling, SentenceVector
from clearhead.pipelines.embed import Combine, Vectors, embed
from clearhead.text import Tokenizer


def load(
    source: str | Path | None = None, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
) -> Model:
    """Load a checkpoint: a folder, or the name of a model on the Hugging Face hub ("owner/name")."""
    if source is None:
        raise NotFound("clearhead has no built-in model yet; name a checkpoint folder or a hub model")
    return Model(read_folder(find(source), dtype)).to(device)


class Model:
    """A loaded checkpoint, ready to use."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.network = checkpoint.network

    @classmethod
    def create(
        cls,
        config: Any,
        tokenizer: Tokenizer | None = None,
        *,
        heads: Mapping[str, int] | None = None,
        labels: Sequence[str] | None = None,
    ) -> Model:
        """Make a model with fresh random weights from a configuration such as `BertConfig`.

        `heads` names the heads to build, each with its number of outputs: {"masked_lm": 30522, "classes": 2}.
        """
        families = [name for name, family in FAMILIES.items() if type(config) is family.config]
        require(bool(families), f"{type(config).__name__} is no configuration of a model family", BadInput)
        description = Description(family=families[0], config=config, labels=tuple(labels) if labels else None)
        network = build_network(description, dict(heads or {})).eval()
        return cls(Checkpoint(description=description, network=network, tokenizer=tokenizer))

    @property
    def encoder(self) -> Any:
        """The encoder: ids to hidden states."""
        return self.network.encoder

    @property
    def config(self) -> Any:
        """The encoder's configuration."""
        return self.encoder.config

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that came with the checkpoint."""
        if self.checkpoint.tokenizer is None:
            raise NotFound("this checkpoint came without a tokenizer; put a tokenizer.json or vocab.txt in its folder")
        return self.checkpoint.tokenizer

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the classes or tags, if the checkpoint has such a head."""
        return self.checkpoint.description.labels

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.encoder.parameters()).device

    def to(self, device: str | torch.device) -> Model:
        """Move the model to a device."""
        self.network.to(device)
        return self

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        pooling: Pooling | None = None,
        normalise: bool | None = None,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Vectors:
        """One vector per text, (texts, D); for a single string, (D,).

        `layers` counts from 0, the embeddings, or from -1, the last. Pooling and normalisation are the checkpoint's
        own where it says how (sentence-transformers folders do), else the mean over tokens.
        """
        own = self.checkpoint.sentence or SentenceVector("mean")
        vector = SentenceVector(
            own.pooling if pooling is None else pooling,
            normalise=own.normalise if normalise is None else normalise,
        )
        single = isinstance(texts, str)
        vectors = embed(
            self.encoder,
            self.tokenizer,
            [texts] if isinstance(texts, str) else texts,
            vector=vector,
            layers=layers,
            combine=combine,
            batch_tokens=batch_tokens,
            progress=progress,
        )
        return vectors[0] if single else vectors

    def save(self, folder: str | Path, heads: Sequence[str] | None = None) -> None:
        """Write a folder that `clearhead.load` and transformers read; whole or not at all."""
        write_folder(self.checkpoint, Path(folder), heads)

    def publish(self, name: str, *, heads: Sequence[str] | None = None, private: bool = False) -> str:
        """Upload the model with its card to the Hugging Face hub as "owner/name"; returns its address."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            self.save(folder, heads)
            sentences = self.checkpoint.sentence is not None
            card = model_card(read_config(folder), name=name, parameters=self.parameters, sentences=sentences)
            return publish(folder, name, private=private, card=card)

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt, heads included."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def __repr__(self) -> str:
        heads = ", ".join(self.network.heads) or "none"
        return f"Model({self.checkpoint.description.family}, {self.parameters / 1e6:.1f} M parameters, heads: {heads})"
