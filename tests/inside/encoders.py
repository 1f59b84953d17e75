"""Tiny random encoders of every kind that a trace must explain: some from models/, some from the parts."""

from functools import partial
from types import SimpleNamespace

import torch
from torch import nn

from clearhead.models.albert import Albert, AlbertConfig
from clearhead.models.bert import Bert, BertConfig
from clearhead.models.modernbert import ModernBert, ModernBertConfig
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, PostNormBlock
from clearhead.nn.embeddings import TokenEmbeddings
from clearhead.nn.layout import Padded
from clearhead.nn.positions import Rotary

WIDTH, HEADS, VOCABULARY = 16, 4, 40
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 3,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


class Windowed(nn.Module):
    """Post-norm with rotary positions and a window: no published model, but the parts allow it."""

    def __init__(self) -> None:
        super().__init__()
        norm = partial(nn.LayerNorm, WIDTH)
        self.embeddings = TokenEmbeddings(VOCABULARY, WIDTH, norm=norm(), dropout=0.1)
        attention = partial(
            MultiHeadAttention, WIDTH, HEADS, rotary=Rotary(WIDTH // HEADS, 100.0, 64), window=2, dropout=0.1
        )
        self.blocks = nn.ModuleList(
            PostNormBlock(attention(), FeedForward(WIDTH, 24, act="gelu"), norm=norm, dropout=0.1) for _ in range(2)
        )

    def forward(self, ids, layout=None, segments=None):
        x = self.embeddings(ids)
        for block in self.blocks:
            x = block(x, layout or Padded.full(ids))
        return x


KINDS = {
    "post-norm": lambda: Bert(BertConfig(**SIZES)),
    "shared": lambda: Albert(AlbertConfig(**SIZES, embedding_size=8)),
    "pre-norm, rotary, window": lambda: ModernBert(ModernBertConfig(**SIZES, local_attention=6)),
    "post-norm, rotary, window": Windowed,
}


def encoder(kind: str = "post-norm", seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    module = KINDS[kind]()
    for parameter in module.parameters():  # weights large enough that attention is far from even
        nn.init.normal_(parameter, std=0.5)
    return module.eval()


class Words:
    """A tokenizer of words, with [CLS] and [SEP]."""

    def encode(self, text, pair=None):
        first = ["[CLS]", *text.split(), "[SEP]"]
        second = [] if pair is None else [*pair.split(), "[SEP]"]
        tokens = first + second
        return SimpleNamespace(
            ids=[sum(map(ord, token)) % VOCABULARY for token in tokens],
            segments=[0] * len(first) + [1] * len(second),
            tokens=tokens,
            parts=(range(1, len(first) - 1), range(len(first), len(tokens) - 1))[: 1 if pair is None else 2],
        )


def model(kind: str = "post-norm") -> SimpleNamespace:
    return SimpleNamespace(encoder=encoder(kind), tokenizer=Words())
