"""Words as vectors that depend on their sentence, from ELMo: every layer of every word."""

# W words of a sentence · K layers · D width of a direction

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from clearhead.errors import BadInput, WrongTask, require
from clearhead.hub.recurrent import RecurrentModel
from clearhead.models.elmo import Elmo
from clearhead.nn.characters import spell
from clearhead.nn.layout import Packed
from clearhead.text import Tokenizer

_SENTENCES = 64  # run at a time


class ContextualWords:
    """ELMo with the vocabulary it was trained with; it reads any word, since it reads letters."""

    def __init__(self, network: Elmo, tokenizer: Tokenizer) -> None:
        self.network, self.tokenizer = network, tokenizer

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a folder that `save` wrote."""
        model = RecurrentModel.load(Path(folder))
        if not isinstance(model.network, Elmo):
            raise WrongTask(f"{folder} is {model.kind}, not elmo; train one with clearhead.training.recipes.elmo")
        return cls(model.network, model.tokenizer)

    @property
    def held(self) -> RecurrentModel:
        """The same as a model that can be saved."""
        return RecurrentModel("elmo", self.network, self.tokenizer)

    def save(self, folder: str | Path) -> None:
        """Write config.json, tokenizer.json and model.safetensors."""
        self.held.save(Path(folder))

    @torch.inference_mode()
    def layers(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Read sentences that are split into words: (W, K, 2 D) for each, the letters' own layer first."""
        empty = next((i for i, words in enumerate(sentences) if not words), None)
        require(empty is None, f"sentence {empty} has no words", BadInput)
        by_length = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        found: dict[int, Tensor] = {}
        for start in range(0, len(by_length), _SENTENCES):
            chosen = by_length[start : start + _SENTENCES]
            states = self._run([sentences[i] for i in chosen])
            found |= dict(zip(chosen, states, strict=True))
        return [found[i] for i in range(len(sentences))]

    def _run(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Put begin and end round each sentence, as in training, and take them off again."""
        begin, end = self.tokenizer.special["cls"], self.tokenizer.special["sep"]
        words = [word for sentence in sentences for word in (begin, *sentence, end)]
        device = self.network.spelling.device
        layout = Packed.of([len(sentence) + 2 for sentence in sentences], device)
        states = self.network.states(spell(words, self.network.config.max_characters).to(device), layout)
        return [one[1:-1] for one in layout.split(states)]
