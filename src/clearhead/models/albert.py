"""ALBERT (Lan et al. 2019): a BERT with few parameters. Two savings, one new objective.

The token table is narrow and projected to the model's width; all layers of a group are one and the same layer.
Pre-trained by filling masks and by telling whether two sentences are in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from clearhead.errors import require
from clearhead.nn.blocks import Encoder, check_transformer, post_norm_blocks, sizes
from clearhead.nn.embeddings import FactorisedEmbeddings, SummedEmbeddings, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, SequenceHead, TokenHead, build_heads

_INIT_STD = 0.02  # section 4.1 follows BERT


@dataclass(frozen=True, kw_only=True, slots=True)
class AlbertConfig:
    """Field names are those of the published config.json; the defaults are ALBERT-xxlarge, as published.

    >>> from clearhead import AlbertConfig
    >>> AlbertConfig().embedding_size < AlbertConfig().hidden_size  # the table of tokens is factorised
    True
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_transformer(self)
        require(
            self.num_hidden_groups <= self.num_hidden_layers,
            f"num_hidden_groups {self.num_hidden_groups} must not exceed num_hidden_layers {self.num_hidden_layers}",
        )


class Albert(Encoder):
    """Ids to hidden states, in either layout. `groups` holds each layer once, `blocks` as often as it is used."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = FactorisedEmbeddings(SummedEmbeddings(config, config.embedding_size), config.hidden_size)
        layers, groups = config.num_hidden_layers, config.num_hidden_groups
        self.groups = post_norm_blocks(config, groups)
        self.blocks = nn.ModuleList(self.groups[layer * groups // layers] for layer in range(layers))
        initialise(self, _INIT_STD)


def heads(albert: Albert, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; those that read [CLS] share one pooler."""
    config, width, token = albert.config, albert.config.hidden_size, albert.embeddings.token
    dropout = config.classifier_dropout_prob
    pooler = Pooler(width, act="tanh")
    makers: HeadMakers = {
        "masked_lm": lambda _: MaskedLMHead(width, token, act=config.hidden_act, norm_eps=config.layer_norm_eps),
        "pooled": lambda _: pooler,
        "sentence_order": lambda n: SequenceHead(pooler, width, n, dropout),
        "classes": lambda n: SequenceHead(pooler, width, n, dropout),
        "choice": lambda n: SequenceHead(pooler, width, n, dropout),
        "tags": lambda n: TokenHead(width, n, dropout),
        "span": lambda n: TokenHead(width, n),
    }
    return build_heads(makers, outputs, _INIT_STD)


# table 1, as released (version 2: without dropout)
PRESETS = {
    "base": AlbertConfig(**sizes(12, 768, 12)),
    "large": AlbertConfig(**sizes(24, 1024, 16)),
    "xlarge": AlbertConfig(**sizes(24, 2048, 16)),
    "xxlarge": AlbertConfig(**sizes(12, 4096, 64)),
}
