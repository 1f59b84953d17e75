"""DistilBERT (Sanh et al. 2019): BERT with half the layers, trained to agree with the whole one.

No segments, no pooler; each head that reads [CLS] has a layer of its own, with ReLU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from clearhead.errors import check_config, check_heads
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, PostNormBlock, activation
from clearhead.nn.embeddings import SummedEmbeddings, check_length, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, SequenceHead, TokenHead, build_heads
from clearhead.nn.layout import Layout, Padded
from clearhead.nn.positions import sinusoidal_interleaved

_NORM_EPS = 1e-12  # the published configuration has no field for it


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertConfig:
    """Field names are those of the published config.json; the defaults are DistilBERT-base, uncased."""

    vocab_size: int = 30522
    max_position_embeddings: int = 512
    sinusoidal_pos_embds: bool = False  # how the positions start, not how they are used
    n_layers: int = 6
    n_heads: int = 12
    dim: int = 768
    hidden_dim: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    initializer_range: float = 0.02
    qa_dropout: float = 0.1
    seq_classif_dropout: float = 0.2
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_config(self)
        activation(self.activation)
        check_heads(self.dim, self.n_heads, names=("dim", "n_heads"))

    @property
    def hidden_size(self) -> int:
        """`dim`, by the name that the other families give it."""
        return self.dim

    @property
    def num_hidden_layers(self) -> int:
        """`n_layers`, by the name that the other families give it."""
        return self.n_layers

    @property
    def num_attention_heads(self) -> int:
        """`n_heads`, by the name that the other families give it."""
        return self.n_heads


class DistilBert(nn.Module):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = SummedEmbeddings(
            config.vocab_size,
            config.max_position_embeddings,
            segments=0,
            width=config.dim,
            norm_eps=_NORM_EPS,
            dropout=config.dropout,
        )
        self.blocks = nn.ModuleList(
            PostNormBlock(
                MultiHeadAttention(config.dim, config.n_heads, dropout=config.attention_dropout),
                FeedForward(config.dim, config.hidden_dim, act=config.activation),
                norm=partial(nn.LayerNorm, config.dim, eps=_NORM_EPS),
                dropout=config.dropout,
            )
            for _ in range(config.n_layers)
        )
        initialise(self, config.initializer_range)
        if config.sinusoidal_pos_embds:
            with torch.no_grad():
                self.embeddings.position.weight.copy_(
                    sinusoidal_interleaved(config.max_position_embeddings, config.dim)
                )

    @property
    def width(self) -> int:
        """Width of a hidden state, D."""
        return self.config.dim

    @property
    def max_length(self) -> int:
        """Longest sequence there are positions for."""
        return self.embeddings.max_length

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D). Segments are not looked at: there is no table."""
        layout = layout or Padded.full(ids)
        check_length(layout.max_length, self.max_length)
        x = self.embeddings(ids, layout.positions)
        for block in self.blocks:
            x = block(x, layout)
        return x


def heads(distilbert: DistilBert, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs."""
    config, width = distilbert.config, distilbert.config.dim
    makers: HeadMakers = {
        "masked_lm": lambda _: MaskedLMHead(
            width, distilbert.embeddings.token, act=config.activation, norm_eps=_NORM_EPS
        ),
        "classes": lambda n: SequenceHead(Pooler(width, act="relu"), width, n, config.seq_classif_dropout),
        "choice": lambda n: SequenceHead(Pooler(width, act="relu"), width, n, config.seq_classif_dropout),
        "tags": lambda n: TokenHead(width, n, config.dropout),
        "span": lambda n: TokenHead(width, n, config.qa_dropout),
    }
    return build_heads(makers, outputs, config.initializer_range)


PRESETS = {"base": DistilBertConfig()}
