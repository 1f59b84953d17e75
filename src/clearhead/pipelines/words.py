"""Words as vectors, one for each whatever the sentence: look one up, find its neighbours."""

from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from clearhead.errors import BadInput, WrongTask, require
from clearhead.hub.recurrent import RecurrentModel, is_recurrent
from clearhead.models.word2vec import Word2Vec
from clearhead.text import Tokenizer


class Neighbour(NamedTuple):
    """A word and its cosine with the word that was asked for."""

    word: str
    cosine: float


class WordVectors:
    """The vectors of a vocabulary of words."""

    def __init__(self, network: Word2Vec, tokenizer: Tokenizer) -> None:
        self.network, self.tokenizer = network, tokenizer

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a folder that `save` wrote."""
        path = Path(folder)
        # what lies in the folder of another model is not read
        model = RecurrentModel.load(path) if is_recurrent(path) or not (path / "config.json").is_file() else None
        if model is None or not isinstance(model.network, Word2Vec):
            raise WrongTask(f"{folder} holds no word vectors; train some with: clearhead vectors train")
        return cls(model.network, model.tokenizer)

    @property
    def held(self) -> RecurrentModel:
        """The same as a model that can be saved."""
        return RecurrentModel("word2vec", self.network, self.tokenizer)

    def save(self, folder: str | Path) -> None:
        """Write config.json, tokenizer.json and model.safetensors."""
        self.held.save(Path(folder))

    def __len__(self) -> int:
        return self.tokenizer.vocabulary

    def vector(self, word: str) -> Tensor:
        """Look a word up: (D,)."""
        return self.network.read.weight.detach()[self._id(word)]

    @torch.inference_mode()
    def near(self, word: str, *, top: int | None = None) -> list[Neighbour]:
        """Find the words with the most similar vectors, the nearest first; the word itself is left out.

        Without `top` ten, or as many as there are.
        """
        top = min(10, len(self) - 1) if top is None else top
        require(1 <= top < len(self), f"top must be from 1 to {len(self) - 1}, got {top}", BadInput)
        own = self._id(word)
        special = set(self.tokenizer.special.values())
        cosines, ids = self.network.nearest(self.vector(word).unsqueeze(0), min(top + len(special) + 1, len(self)))
        rows = zip(ids[0].tolist(), cosines[0].tolist(), strict=True)
        named = ((self.tokenizer.id_to_token(i), cosine) for i, cosine in rows if i != own)
        return [Neighbour(name, cosine) for name, cosine in named if name is not None and name not in special][:top]

    def _id(self, word: str) -> int:
        ids = self.tokenizer.pieces(word).ids
        known = len(ids) == 1 and ids[0] != self.tokenizer.unk_id
        require(known, f"{word!r} is none of the {len(self)} words there are vectors for", BadInput)
        return ids[0]
