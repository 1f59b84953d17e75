"""Word vectors: one for each word (word2vec), or one for each occurrence (ELMo)."""

# W words of a sentence · K layers · D width of a direction

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from clearhead.errors import BadInput, WrongTask, renamed, require
from clearhead.hub.checkpoint import recurrent_checkpoint
from clearhead.hub.config import read_config
from clearhead.models.elmo import Elmo
from clearhead.models.word2vec import Word2Vec
from clearhead.pipelines.elmo import sentence_layers
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer


class Neighbour(NamedTuple):
    """A word and its cosine with the word that was asked for."""

    word: str
    cosine: float


class _Saved:
    """A recurrent network with the vocabulary it was trained with, in a folder of its own."""

    family: ClassVar[str]
    refusal: ClassVar[str]  # of a folder of another family

    def __init__(self, network: Any, tokenizer: Tokenizer) -> None:
        self.network, self.tokenizer = network, tokenizer

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a folder that `save` wrote."""
        family = read_config(Path(folder)).family
        require(family == cls.family, cls.refusal.format(folder=folder, family=family), WrongTask)
        model = load(folder)
        return cls(model.network, model.tokenizer)

    @property
    def model(self) -> Model:
        """The same as a model that can be saved."""
        return Model(recurrent_checkpoint(self.family, self.network, self.tokenizer))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write config.json, tokenizer.json and model.safetensors; see `Model.save`."""
        self.model.save(folder, overwrite=overwrite)


class WordVectors(_Saved):
    """The vectors of a vocabulary of words."""

    network: Word2Vec
    family = "word2vec"
    refusal = "{folder} holds no word vectors; train some with: clearhead vectors train"

    def __len__(self) -> int:
        return self.tokenizer.vocabulary

    def vector(self, word: str) -> Tensor:
        """Look a word up: (D,)."""
        return self.network.read.weight.detach()[self._id(word)]

    @renamed(top="top_k")
    @torch.inference_mode()
    def near(self, word: str, *, top_k: int | None = None) -> list[Neighbour]:
        """Find the words with the most similar vectors, the nearest first; the word itself is left out.

        Without `top_k` ten, or as many as there are.
        """
        top_k = min(10, len(self) - 1) if top_k is None else top_k
        require(1 <= top_k < len(self), f"top_k must be from 1 to {len(self) - 1}, got {top_k}", BadInput)
        own = self._id(word)
        special = set(self.tokenizer.special.values())
        cosines, ids = self.network.nearest(self.vector(word).unsqueeze(0), min(top_k + len(special) + 1, len(self)))
        rows = zip(ids[0].tolist(), cosines[0].tolist(), strict=True)
        named = ((self.tokenizer.id_to_token(i), cosine) for i, cosine in rows if i != own)
        return [Neighbour(name, cosine) for name, cosine in named if name is not None and name not in special][:top_k]

    def _id(self, word: str) -> int:
        ids = self.tokenizer.pieces(word).ids
        known = len(ids) == 1 and ids[0] != self.tokenizer.unk_id
        require(known, f"{word!r} is none of the {len(self)} words there are vectors for", BadInput)
        return ids[0]


class ContextualWords(_Saved):
    """ELMo, which reads any word, since it reads letters."""

    network: Elmo
    family = "elmo"
    refusal = "{folder} is {family}, not elmo; train one with: clearhead pretrain --family elmo"

    def layers(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Read sentences that are split into words: (W, K, 2 D) for each, the letters' own layer first."""
        return sentence_layers(self.network, self.tokenizer, sentences)
