"""MPNet (Song et al. 2020): BERT that learns masked words in permuted order, each knowing how many are masked.

Two differences in the model: a learned number for each distance is added to the scores (T5's bias, shared by all
layers), beside learned positions, which are counted from 2 as RoBERTa's; and there are no segments. It makes the
sentence vectors of all-mpnet-base-v2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from clearhead.errors import require
from clearhead.nn.blocks import Encoder, check_transformer, post_norm_blocks, sizes
from clearhead.nn.embeddings import SummedEmbeddings, check_length, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, SequenceHead, TokenHead, build_heads
from clearhead.nn.layout import Layout, Padded
from clearhead.nn.relative import RelativeBias

_PAD = 1  # of every published file; positions begin after it
_BUCKETS, _MAX_DISTANCE = 32, 128  # section 2.3 follows T5


@dataclass(frozen=True, kw_only=True, slots=True)
class MPNetConfig:
    """Field names are those of the published config.json; the defaults are MPNet-base.

    >>> from clearhead import MPNetConfig
    >>> MPNetConfig(max_position_embeddings=514).pad_token_id  # positions begin after it
    1
    """

    vocab_size: int = 30527
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = _PAD

    def __post_init__(self) -> None:
        check_transformer(self)
        message = f"pad_token_id must be {_PAD}, after which MPNet counts positions, got {self.pad_token_id}"
        require(self.pad_token_id == _PAD, message)
        positions = f"max_position_embeddings {self.max_position_embeddings} leaves no position after padding"
        require(self.max_position_embeddings > _PAD + 1, positions)

    type_vocab_size = 0  # no segments


class MPNet(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = SummedEmbeddings(config, config.hidden_size, first_position=_PAD + 1)
        self.bias = RelativeBias(_BUCKETS, _MAX_DISTANCE, config.num_attention_heads, bidirectional=True)
        self.blocks = post_norm_blocks(config, config.num_hidden_layers)
        initialise(self, config.initializer_range)

    @property
    def max_length(self) -> int:
        """Longest sequence there are positions for: the first ones are never used."""
        return self.config.max_position_embeddings - self.embeddings.first_position

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D); there are no segments."""
        layout = layout or Padded.full(ids)
        check_length(layout.max_length, self.max_length)
        x, bias = self.embeddings(ids, layout.positions), self.bias(layout)
        for block in self.blocks:
            x = block(x, layout, None, bias)
        return x


def heads(mpnet: MPNet, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; choices read the pooler, classes a layer of their own."""
    config, width, token = mpnet.config, mpnet.config.hidden_size, mpnet.embeddings.token
    dropout = config.hidden_dropout_prob
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


# "base" is as released; "mini" and "small" are sizes to try things with
PRESETS = {
    name: MPNetConfig(**size, max_position_embeddings=514, layer_norm_eps=1e-5)
    for name, size in {"mini": sizes(4, 256, 4), "small": sizes(6, 384, 12), "base": sizes(12, 768, 12)}.items()
}
