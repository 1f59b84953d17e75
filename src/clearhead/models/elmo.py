"""ELMo (Peters et al. 2018): words from their characters, then forward and backward language models of two LSTMs each.

What the layers know of a word in its sentence, mixed in learnt shares, are its vectors. The paper's LSTMs are wider
than their output and projected down; ours are as wide as their output, which every kernel knows.
"""

# N packed words · C characters of a word · D width of a direction · K layers · V vocabulary

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.errors import check_config
from clearhead.nn.embeddings import CharacterCNN
from clearhead.nn.layout import Packed
from clearhead.nn.recurrent import RecurrentLayers, reversed_places

# widths of the filters and how many of each: the shape of the paper's, for a width of 512
_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
class ElmoConfig:
    """Sizes; a narrower model has fewer filters in proportion."""

    vocab_size: int = 30_000
    hidden_size: int = 512
    num_hidden_layers: int = 2
    character_size: int = 16
    max_characters: int = 50
    highway_layers: int = 2
    dropout: float = 0.1
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_config(self)

    @property
    def filters(self) -> tuple[tuple[int, int], ...]:
        """Widths of the convolutions, and how many filters of each."""
        return tuple((letters, max(count * self.hidden_size // 512, 1)) for letters, count in _FILTERS)


class Elmo(nn.Module):
    """Two language models that share how words are read and how they are guessed.

    `spelling` (V, C) holds the characters of every word of the vocabulary; fill it with `nn.embeddings.spell`.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        width, layers = config.hidden_size, config.num_hidden_layers
        self.spelling: Tensor
        self.register_buffer("spelling", torch.zeros(config.vocab_size, config.max_characters, dtype=torch.int16))
        self.words = CharacterCNN(config.character_size, config.filters, config.highway_layers, width)
        self.forwards = nn.ModuleList(RecurrentLayers(nn.LSTM(width, width)) for _ in range(layers))
        self.backwards = nn.ModuleList(RecurrentLayers(nn.LSTM(width, width)) for _ in range(layers))
        self.output = nn.Linear(width, config.vocab_size)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def layers(self) -> int:
        """How many layers a word has, K: the character convolutions, then the LSTMs."""
        return self.config.num_hidden_layers + 1

    def forward(self, ids: Tensor, layout: Packed) -> tuple[Tensor, Tensor]:
        """Words of the vocabulary (N,), packed -> logits (N, V) of the word after each, and of the word before."""
        ahead, back = self._directions(self.spelling[ids], layout)
        return self.output(self.dropout(ahead[-1])), self.output(self.dropout(back[-1]))

    def states(self, spelled: Tensor, layout: Packed) -> Tensor:
        """Any words by their characters (N, C), packed -> all layers (N, K, 2 D), forward and backward side by side."""
        ahead, back = self._directions(spelled, layout)
        return torch.stack([torch.cat(pair, -1) for pair in zip(ahead, back, strict=True)], 1)

    def _directions(self, spelled: Tensor, layout: Packed) -> tuple[list[Tensor], list[Tensor]]:
        """Run both language models: what each layer gave, the words' own vectors first."""
        x = self.words(spelled)
        places = reversed_places(layout)
        ahead = self._stack(x, layout, self.forwards)
        back = [layer[places] for layer in self._stack(x[places], layout, self.backwards)]
        return ahead, back

    def _stack(self, x: Tensor, layout: Packed, layers: nn.ModuleList) -> list[Tensor]:
        found = [x]
        for depth, layer in enumerate(layers):
            read, _ = layer(self.dropout(x), layout)
            x = read if depth == 0 else x + read  # a residual from the first LSTM to the second
            found.append(x)
        return found


PRESETS = {"mini": ElmoConfig(hidden_size=128), "base": ElmoConfig()}
