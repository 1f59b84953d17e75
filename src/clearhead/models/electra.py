"""ELECTRA (Clark et al. 2020): a small generator fills masks, and BERT learns which tokens it replaced.

Generator and discriminator are the same encoder with different heads ("masked_lm", "replaced"). A token table that is
narrower than the model is projected to its width. No pooler: each head that reads [CLS] has a layer of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from clearhead.nn.blocks import Encoder, check_transformer, post_norm_blocks, sizes
from clearhead.nn.embeddings import FactorisedEmbeddings, SummedEmbeddings, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, ReplacedTokenHead, SequenceHead, TokenHead, build_heads


@dataclass(frozen=True, kw_only=True, slots=True)
class ElectraConfig:
    """Field names are those of the published config.json; the defaults are ELECTRA-small.

    >>> from clearhead import ElectraConfig
    >>> ElectraConfig().embedding_size, ElectraConfig().hidden_size
    (128, 256)
    """

    vocab_size: int = 30522
    embedding_size: int = 128
    hidden_size: int = 256
    num_hidden_layers: int = 12
    num_attention_heads: int = 4
    intermediate_size: int = 1024
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


class Electra(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.config = config
        summed = SummedEmbeddings(config, config.embedding_size)
        narrow = config.embedding_size != config.hidden_size
        self.embeddings = FactorisedEmbeddings(summed, config.hidden_size) if narrow else summed
        self.blocks = post_norm_blocks(config, config.num_hidden_layers)
        initialise(self, config.initializer_range)


def heads(electra: Electra, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs."""
    config, width, token = electra.config, electra.config.hidden_size, electra.embeddings.token
    dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
    makers: HeadMakers = {
        # gelu here and before classes and choices, whatever the blocks use, as published
        "masked_lm": lambda _: MaskedLMHead(width, token, act="gelu", norm_eps=config.layer_norm_eps),
        "replaced": lambda _: ReplacedTokenHead(width, act=config.hidden_act),
        "classes": lambda n: SequenceHead(Pooler(width, act="gelu", dropout=dropout), width, n, dropout),
        "choice": lambda n: SequenceHead(Pooler(width, act="gelu"), width, n, dropout),
        "tags": lambda n: TokenHead(width, n, dropout),
        "span": lambda n: TokenHead(width, n),
    }
    return build_heads(makers, outputs, config.initializer_range)


# the discriminators of table 6; "small" embeds narrowly
PRESETS = {
    "small": ElectraConfig(),
    "base": ElectraConfig(embedding_size=768, **sizes(12, 768, 12)),
    "large": ElectraConfig(embedding_size=1024, **sizes(24, 1024, 16)),
}
