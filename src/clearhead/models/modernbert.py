"""ModernBERT (Warner et al. 2024): the encoder with what has been learnt since, for 8192 tokens.

Pre-norm, rotary positions, a gated feed-forward (GeGLU), no biases. Every third layer attends to the whole text, the
others to `local_attention` tokens around; the two kinds rotate their positions at different rates. No segments, no
pooler.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor, nn

from clearhead.errors import check_config, check_heads, require
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import Encoder, GatedFeedForward, PreNormBlock
from clearhead.nn.embeddings import TokenEmbeddings, initialise
from clearhead.nn.heads import (
    HeadMakers,
    MaskedLMHead,
    ReplacedTokenHead,
    SequenceHead,
    TokenHead,
    Transform,
    TransformedPooler,
    build_heads,
)
from clearhead.nn.layout import Layout
from clearhead.nn.positions import Rotary


@dataclass(frozen=True, kw_only=True, slots=True)
class ModernBertConfig:
    """Field names are those of the published config.json; the defaults are ModernBERT-base.

    >>> from clearhead import ModernBertConfig
    >>> ModernBertConfig().max_position_embeddings
    8192
    """

    vocab_size: int = 50368
    hidden_size: int = 768
    num_hidden_layers: int = 22
    num_attention_heads: int = 12
    intermediate_size: int = 1152
    max_position_embeddings: int = 8192
    initializer_range: float = 0.02
    norm_eps: float = 1e-5
    global_attn_every_n_layers: int = 3
    global_rope_theta: float = 160000.0
    local_attention: int = 128  # both sides together
    local_rope_theta: float = 10000.0
    classifier_pooling: str = "cls"
    classifier_dropout: float = 0.0
    pad_token_id: int = 50283

    def __post_init__(self) -> None:
        check_config(self)
        check_heads(self.hidden_size, self.num_attention_heads)
        width = self.hidden_size // self.num_attention_heads
        require(width % 2 == 0, f"hidden_size / num_attention_heads must be even for rotary positions, got {width}")
        known = self.classifier_pooling in ("cls", "mean")
        require(known, f"classifier_pooling must be 'cls' or 'mean', got {self.classifier_pooling!r}")


class ModernBert(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.config = config
        norm = partial(nn.LayerNorm, config.hidden_size, eps=config.norm_eps, bias=False)
        self.embeddings = TokenEmbeddings(config.vocab_size, config.hidden_size, norm=norm(), dropout=0.0)
        width, heads, longest = config.hidden_size, config.num_attention_heads, config.max_position_embeddings
        whole = Rotary(width // heads, config.global_rope_theta, longest), None
        local = Rotary(width // heads, config.local_rope_theta, longest), config.local_attention // 2
        every = config.global_attn_every_n_layers
        attentions = [local if layer % every else whole for layer in range(config.num_hidden_layers)]
        self.blocks = nn.ModuleList(
            PreNormBlock(
                MultiHeadAttention(width, heads, bias=False, rotary=rotary, window=window),
                GatedFeedForward(width, config.intermediate_size, act="gelu", bias=False),
                norm=norm,
                dropout=0.0,
                first=layer == 0,
            )
            for layer, (rotary, window) in enumerate(attentions)
        )
        self.norm = norm()
        initialise(self, config.initializer_range)

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D). Segments are capitals, if it has their table."""
        return self.norm(super().forward(ids, layout, segments))


def heads(modernbert: ModernBert, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; in all of them a transform comes first."""
    config, width, vectors = modernbert.config, modernbert.config.hidden_size, modernbert.embeddings.token
    pooling: Literal["first", "mean"] = "first" if config.classifier_pooling == "cls" else "mean"
    transform = partial(Transform, width, act="gelu", norm_eps=config.norm_eps)

    def sequence(n: int) -> SequenceHead:
        return SequenceHead(TransformedPooler(pooling, transform()), width, n, config.classifier_dropout)

    def token(n: int) -> TokenHead:
        return TokenHead(width, n, config.classifier_dropout, transform())

    makers: HeadMakers = {
        "masked_lm": lambda _: MaskedLMHead(width, vectors, act="gelu", norm_eps=config.norm_eps, bias=False),
        # of our own making, to pre-train these blocks by other objectives than masks alone
        "next_sentence": sequence,
        "replaced": lambda _: ReplacedTokenHead(width, act="gelu"),
        "classes": sequence,
        "choice": sequence,
        "tags": token,
        "span": token,
    }
    return build_heads(makers, outputs, config.initializer_range)


def _small(layers: int, width: int, inner: int) -> ModernBertConfig:
    """Ours: texts of up to 512 tokens, to which every layer attends as a whole."""
    return ModernBertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=inner,
        max_position_embeddings=512,
        global_attn_every_n_layers=1,
        global_rope_theta=10000.0,
    )


PRESETS = {
    "tiny": _small(2, 128, 320),
    "mini": _small(12, 256, 640),
    "small": _small(12, 384, 960),
    "base": ModernBertConfig(),
    "large": ModernBertConfig(hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, intermediate_size=2624),
}
