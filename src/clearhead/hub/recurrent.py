"""Folders of the models from before the Transformer: config.json, tokenizer.json and model.safetensors, our own names.

No Hugging Face library knows these models, so that tensors keep the names of the network's parameters.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadConfig, NotFound, require
from clearhead.hub.checkpoint import read_tokenizer
from clearhead.hub.config import build_config
from clearhead.hub.weights import WEIGHTS, read_weights, write_tensors
from clearhead.io import read_object, staged, write_json
from clearhead.models import RECURRENT_FAMILIES
from clearhead.text import Tokenizer


@dataclass(frozen=True)
class RecurrentModel:
    """A network of the kind (a name in RECURRENT_FAMILIES) and its tokenizer."""

    kind: str
    network: Any
    tokenizer: Tokenizer

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def save(self, folder: Path) -> None:
        """Write a folder; a failure on the way leaves the old one."""
        with staged(folder) as stage:
            content = {"model_type": self.kind, **asdict(self.network.config)}
            write_json(content, stage / "config.json")
            tensors = {name: tensor.detach() for name, tensor in _tensors(self.network).items()}
            write_tensors(tensors, stage / WEIGHTS)
            self.tokenizer.save(stage)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder that `save` wrote."""
        kind, network = _build(folder / "config.json")
        ours, theirs = _tensors(network), read_weights(folder)
        for name in {**ours, **theirs}:
            wanted, found = (None if name not in side else tuple(side[name].shape) for side in (ours, theirs))
            if wanted != found:
                raise BadCheckpoint(
                    f"{folder}: {name} has shape {found}, config.json asks for {wanted}; "
                    "config.json and the weights are from different models"
                )
        with torch.no_grad():
            for name, tensor in ours.items():
                tensor.copy_(theirs[name])
        return cls(kind, network.eval(), read_tokenizer(folder, network.config.vocab_size))


def is_recurrent(folder: Path) -> bool:
    """Tell whether a folder holds one of these models."""
    path = folder / "config.json"
    return path.is_file() and read_object(path).get("model_type") in RECURRENT_FAMILIES


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    """All that is saved; a matrix with two names comes once."""
    return dict(network.named_parameters()) | dict(network.named_buffers())


def _build(path: Path) -> tuple[str, Any]:
    require(path.exists(), f"{path} is not there; a checkpoint folder needs it", NotFound)
    content = read_object(path)
    kind = content.pop("model_type", None)
    if not isinstance(kind, str) or kind not in RECURRENT_FAMILIES:
        raise BadConfig(f"{path}: model_type {kind!r} is none of {', '.join(RECURRENT_FAMILIES)}")
    family = RECURRENT_FAMILIES[kind]
    known = {spec.name for spec in fields(family.config)}
    if unknown := sorted(set(content) - known):
        raise BadConfig(f"{path}: unknown key {unknown[0]!r}; {kind} knows {', '.join(sorted(known))}")
    return kind, family.network(build_config(family.config, content, path))
