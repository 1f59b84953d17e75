"""The model a user holds when it is from before the Transformer: it translates or goes on, and that is all."""

from pathlib import Path
from typing import Any, NoReturn

import torch

from clearhead.errors import WrongTask
from clearhead.hub.recurrent import RecurrentModel
from clearhead.pipelines.write import Writer
from clearhead.pipelines.writes import Writes
from clearhead.text import Tokenizer

# where it is not "translate or generate"
_CAN = {
    "elmo": "its vectors are given by pipelines.contextual.ContextualWords",
    "rnnlm": "it can generate",
    "word2vec": "its words are looked up with: clearhead vectors near",
}


class Recurrent(Writes):
    """An LSTM or GRU that was opened by `clearhead.load`; its uses are those of `Model` by the same names."""

    def __init__(self, held: RecurrentModel) -> None:
        self.held = held

    @property
    def kind(self) -> str:
        """Which model it is, such as seq2seq-lstm-additive."""
        return self.held.kind

    @property
    def network(self) -> Any:
        """The network itself."""
        return self.held.network

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that came with it."""
        return self.held.tokenizer

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.network.parameters()).device

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt."""
        return self.held.parameters

    def to(self, device: str | torch.device) -> "Recurrent":
        """Move the model to a device."""
        self.network.to(device)
        return self

    @property
    def writer(self) -> Writer:
        """What writes."""
        return Writer.of(self.network, self.tokenizer)

    def save(self, folder: str | Path) -> None:
        """Write a folder that `clearhead.load` reads."""
        self.held.save(Path(folder))

    def __repr__(self) -> str:
        return f"Recurrent({self.kind}, {self.parameters / 1e6:.1f} M parameters)"

    def __getattr__(self, use: str) -> NoReturn:
        if use.startswith("_"):
            raise AttributeError(use)
        can = _CAN.get(self.kind.partition("-")[0], "it can translate or generate")
        raise WrongTask(f"a {self.kind} is from before the Transformer and has no {use!r}; {can}")
