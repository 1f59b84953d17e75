"""DeBERTa v2 and v3 (He et al. 2020, 2021): content and distance attend to each other by matrices of their own.

A score is the sum of content to content, content to distance and distance to content (disentangled attention); there
are no positions in the input and no segments. The large models of version 2 convolve the input of the first layer.
Version 3 is the same network, pre-trained as ELECTRA by finding replaced tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from clearhead.errors import require
from clearhead.nn.blocks import Encoder, FeedForward, PostNormBlock, check_transformer, sizes
from clearhead.nn.embeddings import TokenEmbeddings, check_length, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, ReplacedTokenHead, SequenceHead, TokenHead, build_heads
from clearhead.nn.layout import Layout, Padded
from clearhead.nn.relative import ConvolvedBlock, DisentangledAttention, Distances


@dataclass(frozen=True, kw_only=True, slots=True)
class DebertaV2Config:
    """Field names are those of the published config.json; a value missing there has the default given here.

    >>> from clearhead import DebertaV2Config
    >>> DebertaV2Config(hidden_size=768, num_attention_heads=12, position_buckets=256).conv_kernel_size
    0
    """

    vocab_size: int = 128100
    hidden_size: int = 1536
    num_hidden_layers: int = 24
    num_attention_heads: int = 24
    intermediate_size: int = 6144
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    position_buckets: int = 0  # 0: a row for each distance
    conv_kernel_size: int = 0  # 0: no convolution
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-7
    pad_token_id: int = 0
    legacy: bool = True  # under which of two names the masked LM's head is saved

    def __post_init__(self) -> None:
        check_transformer(self)
        kernel, buckets = self.conv_kernel_size, self.position_buckets
        require(kernel % 2 == 1 or kernel == 0, f"conv_kernel_size must be odd, or 0 for no convolution, got {kernel}")
        require(buckets == 0 or buckets >= 4, f"position_buckets must be at least 4, or 0 for none, got {buckets}")


class DebertaV2(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: DebertaV2Config) -> None:
        super().__init__()
        self.config = config
        width, rate, eps = config.hidden_size, config.hidden_dropout_prob, config.layer_norm_eps
        norm = partial(nn.LayerNorm, width, eps=eps)
        self.embeddings = TokenEmbeddings(config.vocab_size, width, norm=norm(), dropout=rate)
        self.distances = Distances(config.position_buckets, config.max_position_embeddings, width, eps)
        heads, dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        attention = partial(DisentangledAttention, width, heads, dropout=dropout, distance_dropout=rate)
        feedforward = partial(FeedForward, width, config.intermediate_size, act=config.hidden_act)
        self.blocks = nn.ModuleList(
            PostNormBlock(attention(), feedforward(), norm, rate) for _ in range(config.num_hidden_layers)
        )
        if kernel := config.conv_kernel_size:
            self.blocks[0] = ConvolvedBlock(attention(), feedforward(), norm, rate, width=width, kernel=kernel)
        initialise(self, config.initializer_range)

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D); there are no segments."""
        layout = layout or Padded.full(ids)
        check_length(layout.max_length, self.max_length)
        x, (vectors, rows) = self.embeddings(ids), self.distances(layout)
        for block in self.blocks:
            x = block(x, layout, vectors, rows)
        return x


def heads(deberta: DebertaV2, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; those that read [CLS] share one pooler."""
    config, width, token = deberta.config, deberta.config.hidden_size, deberta.embeddings.token
    dropout = config.hidden_dropout_prob
    pooler = Pooler(width, act="gelu")
    makers: HeadMakers = {
        "masked_lm": lambda _: MaskedLMHead(width, token, act=config.hidden_act, norm_eps=config.layer_norm_eps),
        "replaced": lambda _: ReplacedTokenHead(width, act=config.hidden_act),
        "classes": lambda n: SequenceHead(pooler, width, n, dropout),
        "choice": lambda n: SequenceHead(pooler, width, n, dropout),
        "tags": lambda n: TokenHead(width, n, dropout),
        "span": lambda n: TokenHead(width, n),
    }
    return build_heads(makers, outputs, config.initializer_range)


def _preset(layers: int, width: int, heads: int, kernel: int = 0) -> DebertaV2Config:
    return DebertaV2Config(**sizes(layers, width, heads), position_buckets=256, conv_kernel_size=kernel)


# version 3 as released, and the two of version 2 that have a convolution; "mini" is a size to try things with
PRESETS = {
    "mini": _preset(4, 256, 4),
    "xsmall": _preset(12, 384, 6),
    "small": _preset(6, 768, 12),
    "base": _preset(12, 768, 12),
    "large": _preset(24, 1024, 16),
    "v2-xlarge": _preset(24, 1536, 24, kernel=3),
    "v2-xxlarge": _preset(48, 1536, 24, kernel=3),
}
