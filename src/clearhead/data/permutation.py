"""Permutation language modelling (Yang et al. 2019): each text in an order of its own, the last words to be guessed."""

# N packed tokens · M asked tokens

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.batch import Batch
from clearhead.data.masking import special_tokens
from clearhead.data.source import Derived, Source, rng
from clearhead.errors import require
from clearhead.nn.layout import Packed
from clearhead.text.template import Special
from clearhead.text.tokenizer import Tokenizer

_DRAW = 6  # keeps these draws apart from the other draws of a batch
SHARE = 1 / 6  # of a text is guessed (section 2.3: K = 6)


class Permuted(Derived):
    """Another source's texts as `source`, with target `rank`, and the asked tokens as the batch itself.

    Their target `place` (M,) is where each stands in its text. Special tokens are never asked for.
    """

    def __init__(self, source: Source, tokenizer: Tokenizer, *, share: float = SHARE, seed: int = 0) -> None:
        require(0 < share < 1, f"The share to guess is {share}; it must lie between 0 and 1.")
        super().__init__(source)
        self._share, self._seed = share, seed
        self._special = special_tokens(tokenizer)
        # which segment a special token is in is known; the rest of a single text is in the first
        self._segments = torch.zeros(tokenizer.vocabulary, dtype=torch.int64)
        for item in tokenizer.template.single:
            if isinstance(item, Special):
                self._segments[item.id] = item.segment

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        text = self.source.batch(index)
        text = replace(text, segments=self._segments[text.ids])
        return permute(text, self._special, self._share, rng(self._seed, index, _DRAW))


def permute(text: Batch, special: NDArray[np.bool_], share: float, draw: np.random.Generator) -> Batch:
    """Draw an order for each text and ask for the last of it.

    Those asked have ranks 1, 2, … in that order. All others have rank 0, so that they see one another, as in the
    published code; who is asked sees them and those asked before.
    """
    rank = np.zeros(text.tokens, dtype=np.int64)
    places, start = [], 0
    for length in text.layout.lengths:
        words = np.flatnonzero(~special[text.ids[start : start + length].numpy()])
        count = max(round(share * len(words)), 1) if len(words) > 1 else 0
        asked = draw.permutation(words)[len(words) - count :]
        rank[start + asked] = np.arange(1, count + 1)
        places.append(np.sort(asked))
        start += length
    firsts = np.repeat(np.cumsum([0, *text.layout.lengths[:-1]]), [len(asked) for asked in places])
    place = np.concatenate(places)
    return Batch(
        text.ids[torch.from_numpy(firsts + place)],
        Packed.of([len(asked) for asked in places]),
        targets={"place": torch.from_numpy(place)},
        source=replace(text, targets={"rank": torch.from_numpy(rank)}),
    )
