"""BERT (Devlin et al. 2018): the 2017 encoder with learned positions, segment embeddings and GELU; post-norm.

Pre-trained by filling masks and by telling whether one sentence follows another.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from clearhead.nn.blocks import Encoder, check_transformer, post_norm_blocks, sizes
from clearhead.nn.embeddings import SummedEmbeddings, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, SequenceHead, TokenHead, build_heads


@dataclass(frozen=True, kw_only=True, slots=True)
class BertConfig:
    """Field names are those of the published config.json; the defaults are BERT-base, uncased.

    >>> from clearhead import BertConfig
    >>> BertConfig(hidden_size=256, num_attention_heads=4).num_hidden_layers
    12
    >>> BertConfig(hidden_size=250)
    Traceback (most recent call last):
    clearhead.errors.BadConfig: ...
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float | None = None
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_transformer(self)


class Bert(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = SummedEmbeddings(config, config.hidden_size)
        self.blocks = post_norm_blocks(config, config.num_hidden_layers)
        initialise(self, config.initializer_range)


def heads(bert: Bert, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; those that read [CLS] share one pooler."""
    config, width, token = bert.config, bert.config.hidden_size, bert.embeddings.token
    dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
    pooler = Pooler(width, act="tanh")
    makers: HeadMakers = {
        "masked_lm": lambda _: MaskedLMHead(width, token, act=config.hidden_act, norm_eps=config.layer_norm_eps),
        "pooled": lambda _: pooler,
        "next_sentence": lambda n: SequenceHead(pooler, width, n),
        "classes": lambda n: SequenceHead(pooler, width, n, dropout),
        "choice": lambda n: SequenceHead(pooler, width, n, dropout),
        "tags": lambda n: TokenHead(width, n, dropout),
        "span": lambda n: TokenHead(width, n),
    }
    return build_heads(makers, outputs, config.initializer_range)


# Devlin et al. 2018 (base, large) and Turc et al. 2019 (the small ones)
PRESETS = {
    "tiny": BertConfig(**sizes(2, 128, 2)),
    "mini": BertConfig(**sizes(4, 256, 4)),
    "small": BertConfig(**sizes(4, 512, 8)),
    "medium": BertConfig(**sizes(8, 512, 8)),
    "base": BertConfig(**sizes(12, 768, 12)),
    "large": BertConfig(**sizes(24, 1024, 16)),
}
