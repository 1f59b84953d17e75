"""T5 (Raffel et al. 2019): every task is text to text. Encoder and decoder with relative positions and no biases.

Pre-norm with RMS norms; a learned number for each distance is added to the scores, which are not divided by √K. In
version 1.1 the feed-forward is gated and the output matrix is its own; before, it is the token table and the hidden
states are divided by √D. Transformers 5 also makes models that share the table and divide nothing. The first token
written follows the padding token.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from clearhead.errors import check_config, require
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward, PreNormBlock, activation
from clearhead.nn.cache import Cache
from clearhead.nn.decoder import CrossAttention, EncoderDecoder, PreNormDecoderBlock, SourceStates, per_layer
from clearhead.nn.embeddings import UNLIMITED, TokenEmbeddings
from clearhead.nn.heads import NextTokenHead
from clearhead.nn.layout import Layout, Padded
from clearhead.nn.relative import RelativeBias


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Config:
    """Field names are those of the published config.json; the defaults are T5-small."""

    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None  # as many as the encoder has
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"  # or "gated-gelu"
    tie_word_embeddings: bool = True  # the output matrix is the token table
    scale_decoder_outputs: bool | None = None  # divided by √D; None: where the table is shared
    pad_token_id: int = 0
    eos_token_id: int = 1

    def __post_init__(self) -> None:
        check_config(self)
        activation(self.act)
        buckets, most = self.relative_attention_num_buckets, self.relative_attention_max_distance
        require(buckets >= 4, f"relative_attention_num_buckets must be at least 4, got {buckets}")
        message = f"relative_attention_max_distance {most} must be more than half of the {buckets} buckets"
        require(most > buckets // 2, message)

    @property
    def gated(self) -> bool:
        """Whether the feed-forward is gated (version 1.1)."""
        return self.feed_forward_proj.startswith("gated-")

    @property
    def scaled(self) -> bool:
        """Whether hidden states are divided by √D before the output matrix."""
        return self.tie_word_embeddings if self.scale_decoder_outputs is None else self.scale_decoder_outputs

    @property
    def act(self) -> str:
        """The activation; what the files call "gated-gelu" is the approximation by tanh."""
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else self.feed_forward_proj.removeprefix("gated-")


class T5(EncoderDecoder):
    """A source and the target so far to hidden states of the target."""

    max_length = UNLIMITED  # positions are relative

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        norm = partial(nn.RMSNorm, config.d_model, eps=config.layer_norm_epsilon)
        rate = config.dropout_rate
        sizes: dict[str, Any] = {"head_width": config.d_kv, "bias": False, "scaled": False, "dropout": rate}
        self_attention = partial(MultiHeadAttention, config.d_model, config.num_heads, **sizes)
        cross = partial(CrossAttention, config.d_model, config.num_heads, **sizes)
        kind = GatedFeedForward if config.gated else FeedForward
        feedforward = partial(kind, config.d_model, config.d_ff, act=config.act, bias=False)
        buckets, most = config.relative_attention_num_buckets, config.relative_attention_max_distance
        bias = partial(RelativeBias, buckets, most, config.num_heads)
        self.embeddings = TokenEmbeddings(config.vocab_size, config.d_model, norm=nn.Identity(), dropout=rate)
        self.encoder_bias = bias(bidirectional=True)
        self.encoder_blocks = nn.ModuleList(
            PreNormBlock(self_attention(), feedforward(), norm, rate) for _ in range(config.num_layers)
        )
        self.encoder_norm = norm()
        self.decoder_bias = bias(bidirectional=False)
        self.decoder_blocks = nn.ModuleList(
            PreNormDecoderBlock(self_attention(causal=True), cross(), feedforward(), norm, rate)
            for _ in range(config.num_decoder_layers or config.num_layers)
        )
        self.decoder_norm = norm()
        self.dropout = nn.Dropout(rate)
        self._initialise()

    def encode(self, ids: Tensor, layout: Layout | None = None) -> SourceStates:
        """Read a source: ids (N,) packed or (B, S) padded."""
        layout = layout or Padded.full(ids)
        x, bias = self.embeddings(ids), self.encoder_bias(layout)
        for block in self.encoder_blocks:
            x = block(x, layout, None, bias)
        return SourceStates(self.dropout(self.encoder_norm(x)), layout)

    def decode(self, ids: Tensor, layout: Layout, source: SourceStates | Cache) -> Tensor:
        """Target ids (…) -> hidden states (…, D): all at once beside a source, or the next ones after a cache."""
        x = self.embeddings(ids)
        bias = self.decoder_bias(layout, source if isinstance(source, Cache) else None)
        for block, layer_source in zip(self.decoder_blocks, per_layer(source), strict=False):
            x = block(x, layout, layer_source, bias)
        return self.dropout(self.decoder_norm(x))

    def _initialise(self) -> None:
        # as published: a matrix keeps the size of what goes through it, and queries are divided by √K once, here
        nn.init.normal_(self.embeddings.token.weight)
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=part.in_features**-0.5)
            elif isinstance(part, RelativeBias):
                nn.init.normal_(part.table.weight, std=self.config.d_model**-0.5)
        inner, smaller = self.config.num_heads * self.config.d_kv, self.config.d_kv**-0.5
        for part in self.modules():
            if isinstance(part, MultiHeadAttention):
                part.qkv.weight.data[:inner] *= smaller
            elif isinstance(part, CrossAttention):
                part.query.weight.data *= smaller


def heads(t5: T5, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads: there is one."""
    build = {"causal_lm": lambda: _next_token(t5)}
    return {name: build[name]() for name in outputs}


def _next_token(t5: T5) -> NextTokenHead:
    tied, small = t5.config.tie_word_embeddings, t5.config.d_model**-0.5
    head = NextTokenHead(t5.embeddings.token, tied=tied, scale=small if t5.config.scaled else 1.0)
    if not tied:
        nn.init.normal_(head.weight, std=small)
    return head


# Raffel et al. 2019, section 3.7, and version 1.1; "mini" is for a laptop
_SMALL = T5Config()
_V1_1 = T5Config(d_ff=1024, num_layers=8, num_heads=6, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
PRESETS = {
    "mini": replace(_SMALL, d_model=256, d_ff=1024, num_layers=4, num_heads=4),
    "small": _SMALL,
    "base": replace(_SMALL, d_model=768, d_ff=3072, num_layers=12, num_heads=12),
    "large": replace(_SMALL, d_model=1024, d_ff=4096, num_layers=24, num_heads=16),
    "v1.1-small": _V1_1,
    "v1.1-base": replace(_V1_1, d_model=768, d_ff=2048, num_layers=12, num_heads=12),
    "v1.1-large": replace(_V1_1, d_model=1024, d_ff=2816, num_layers=24, num_heads=16),
}
