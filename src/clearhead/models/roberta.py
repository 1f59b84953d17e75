"""RoBERTa (Liu et al. 2019): BERT trained longer, on more text, with fresh masks and without sentence pairs.

Two differences in the model: positions are counted from `pad_token_id` + 1, and classes have a layer of their own
instead of the pooler. XLM-RoBERTa and CamemBERT are the same model with other vocabularies.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from clearhead.errors import require
from clearhead.nn.blocks import Encoder, check_transformer, post_norm_blocks, sizes
from clearhead.nn.embeddings import SummedEmbeddings, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, SequenceHead, TokenHead, build_heads
from clearhead.nn.layout import Layout


@dataclass(frozen=True, kw_only=True, slots=True)
class RobertaConfig:
    """Field names are those of the published config.json; a value missing there has the default given here.

    >>> from clearhead import RobertaConfig
    >>> RobertaConfig(max_position_embeddings=514).pad_token_id  # positions begin after it
    1
    """

    vocab_size: int = 50265
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
    pad_token_id: int = 1

    def __post_init__(self) -> None:
        check_transformer(self)
        require(
            self.max_position_embeddings > self.pad_token_id + 1,
            f"max_position_embeddings {self.max_position_embeddings} leaves no position after "
            f"pad_token_id {self.pad_token_id}, where RoBERTa starts to count",
        )


class Roberta(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = SummedEmbeddings(config, config.hidden_size, first_position=config.pad_token_id + 1)
        self.blocks = post_norm_blocks(config, config.num_hidden_layers)
        initialise(self, config.initializer_range)

    @property
    def max_length(self) -> int:
        """Longest sequence there are positions for: the first ones are never used."""
        return self.config.max_position_embeddings - self.embeddings.first_position

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D). Without a layout, nothing is padding."""
        if self.config.type_vocab_size == 1:
            segments = None  # the published models do not tell the two texts of a pair apart
        return super().forward(ids, layout, segments)


def heads(roberta: Roberta, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; choices read the pooler, classes a layer of their own."""
    config, width, token = roberta.config, roberta.config.hidden_size, roberta.embeddings.token
    dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
    pooler = Pooler(width, act="tanh")
    makers: HeadMakers = {
        # gelu whatever the blocks use, as published
        "masked_lm": lambda _: MaskedLMHead(width, token, act="gelu", norm_eps=config.layer_norm_eps),
        "pooled": lambda _: pooler,
        "classes": lambda n: SequenceHead(Pooler(width, act="tanh", dropout=dropout), width, n, dropout),
        "choice": lambda n: SequenceHead(pooler, width, n, dropout),
        "tags": lambda n: TokenHead(width, n, dropout),
        "span": lambda n: TokenHead(width, n),
    }
    return build_heads(makers, outputs, config.initializer_range)


PRESETS = {
    name: RobertaConfig(**size, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5)
    for name, size in {"base": sizes(12, 768, 12), "large": sizes(24, 1024, 16)}.items()
}
