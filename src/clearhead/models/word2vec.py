"""word2vec (Mikolov et al. 2013): one vector for each word, trained to tell words that are near from random ones.

CBOW predicts a word from the mean of those around it, skip-gram each of those around from the word itself. The
network is the same: some words, averaged, are compared with candidates. Which words they are is for the data to say.
"""

# B predictions · N packed words · K random words · D width · V vocabulary

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import check_config, require
from clearhead.nn.layout import Packed


@dataclass(frozen=True, kw_only=True, slots=True)
class Word2VecConfig:
    """How many words there are, and how wide a vector is."""

    vocab_size: int = 30_000
    hidden_size: int = 100
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_config(self)


class Word2Vec(nn.Module):
    """Two vectors for each word: as one that is read, which is kept in the end, and as one that is guessed."""

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__()
        self.config = config
        self.read = nn.Embedding(config.vocab_size, config.hidden_size)
        self.guessed = nn.Embedding(config.vocab_size, config.hidden_size)
        # wider than the paper's, whose steps are as small as its vectors: AdamW's would draw all words one way at first
        nn.init.normal_(self.read.weight, std=0.1)
        nn.init.zeros_(self.guessed.weight)

    def forward(self, ids: Tensor, layout: Packed, candidates: Tensor) -> Tensor:
        """Words (N,), averaged over each sequence, and candidates (B, 1 + K) -> logits (B, 1 + K)."""
        mean = F.embedding_bag(ids, self.read.weight, layout.offsets[:-1].long(), mode="mean")  # (B, D)
        return torch.einsum("bd,bkd->bk", mean, self.guessed(candidates))

    def nearest(self, vectors: Tensor, top: int) -> tuple[Tensor, Tensor]:
        """Find the words nearest to vectors (B, D): cosines and ids, (B, top) each, the nearest first."""
        require(1 <= top <= self.config.vocab_size, f"top must be from 1 to {self.config.vocab_size}, got {top}")
        cosines = F.normalize(vectors, dim=-1) @ F.normalize(self.read.weight, dim=-1).T
        return cosines.topk(top)
