"""Words from their letters: a convolution over characters, highway layers, a projection (Kim et al. 2016).

Letters are the bytes of UTF-8, so that no word is unknown.
"""

# N words · C characters of a word · E width of a character · D width

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_PAD, _BEGIN, _END, _FIRST = 0, 1, 2, 3
CHARACTERS = _FIRST + 256
_SPREAD = 8.0  # times torch's own scale at first, with which all words seem alike: those of a table differ by one


def spell(words: Sequence[str], longest: int) -> Tensor:
    """Write words as characters between a begin and an end, (N, longest) int16; a longer word loses its last bytes."""
    table = torch.full((len(words), longest), _PAD, dtype=torch.int16)
    for row, word in enumerate(words):
        letters = [_BEGIN, *(byte + _FIRST for byte in word.encode()[: longest - 2]), _END]
        table[row, : len(letters)] = torch.tensor(letters, dtype=torch.int16)
    return table


class Highway(nn.Module):
    """A layer that lets through what it does not change (Srivastava et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, 2 * width)
        nn.init.constant_(self.map.bias[width:], 1.0)  # at first most is let through

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        new, keep = self.map(x).chunk(2, -1)
        keep = keep.sigmoid()
        return keep * x + (1 - keep) * new.relu()


class CharacterWords(nn.Module):
    """Spellings to vectors; `filters` are (letters seen at once, how many)."""

    def __init__(self, embed: int, filters: Sequence[tuple[int, int]], highways: int, width: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(CHARACTERS, embed, padding_idx=_PAD)
        self.convolutions = nn.ModuleList(nn.Conv1d(embed, count, letters) for letters, count in filters)
        total = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.project = nn.Linear(total, width)
        self._widest = max(letters for letters, _ in filters)
        with torch.no_grad():
            self.project.weight.mul_(_SPREAD)

    def forward(self, spelled: Tensor) -> Tensor:
        """(N, C) -> (N, D). Each spelling is worked out once, however often it stands there."""
        different, which = spelled.unique(dim=0, return_inverse=True)
        # past the longest word, as many pads are read as a filter sees: more would all give the same
        longest = int((different != _PAD).any(0).sum())
        letters = self.letter(different[:, : longest + self._widest].long()).mT  # (N, E, C)
        x = torch.cat([F.relu(convolution(letters).amax(-1)) for convolution in self.convolutions], -1)
        for highway in self.highways:
            x = highway(x)
        return self.project(x)[which]
