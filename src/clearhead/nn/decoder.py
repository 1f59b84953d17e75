"""Encoder–decoders: attention to a source, decoder blocks, and what all such models share."""

# B batch · D width · H heads · K head width; … is (N) packed or (B, T) padded

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from torch import Tensor, nn

from clearhead.errors import check_config, check_heads, require
from clearhead.nn.attention import Attend, MultiHeadAttention, inner_width
from clearhead.nn.blocks import FeedForward, Norm, PostNormBlock, PreNormBlock, activation
from clearhead.nn.cache import Cache, LayerCache, SourceKV
from clearhead.nn.embeddings import Places, PositionedEmbeddings, check_length
from clearhead.nn.fused import linear
from clearhead.nn.layout import Layout, Padded


@dataclass(frozen=True)
class SourceStates:
    """What the encoder made of a source: hidden states (…, D)."""

    hidden: Tensor
    layout: Layout


Source = SourceStates | LayerCache  # a cache knows the source that it was made for


class EncoderDecoder(nn.Module):
    """A body that reads a source beside its ids, where others turn ids alone into hidden states.

    A model sets the two attributes, and says how sources are encoded and targets decoded.
    """

    config: Any
    decoder_blocks: Any  # a ModuleList of decoder blocks
    opens_with_bos = False  # whether a source begins with the begin token

    @property
    def width(self) -> int:
        """Width of a hidden state, D."""
        return self.config.d_model

    @property
    def decoder_start_token_id(self) -> int:
        """The token that the decoder begins with: padding."""
        return self.config.pad_token_id

    def encode(self, ids: Tensor, layout: Layout | None = None) -> SourceStates:
        """Read a source: ids (N,) packed or (B, S) padded."""
        raise NotImplementedError

    def decode(self, ids: Tensor, layout: Layout, source: SourceStates | Cache) -> Tensor:
        """Target ids (…) -> hidden states (…, D): all at once beside a source, or the next ones after a cache."""
        raise NotImplementedError

    def init_cache(self, source: SourceStates) -> Cache:
        """Make the cache that `decode` goes on from: nothing written yet, the source seen by every layer."""
        return Cache.for_sources(block.cross.read(source) for block in self.decoder_blocks)

    def forward(self, ids: Tensor, layout: Layout | None, source: Any) -> Tensor:
        """Target ids (N,) packed or (B, T) padded, beginning with the start token, and source -> (…, D).

        The source has `ids` and a `layout`, as a `Batch` has.
        """
        return self.decode(ids, layout or Padded.full(ids), self.encode(source.ids, source.layout))


class CrossAttention(nn.Module):
    """Attention of a text to another one: queries of the target, keys and values of the source."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        head_width: int | None = None,
        bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        inner = inner_width(width, heads, head_width)
        self.heads = heads
        self.query = nn.Linear(width, inner, bias=bias)
        self.key_value = nn.Linear(width, 2 * inner, bias=bias)
        self.rescale = 1.0 if scaled else (inner // heads) ** 0.5  # what `attend` divides by
        self.attend = Attend(dropout=dropout)
        self.output = nn.Linear(inner, width, bias=bias)

    def read(self, source: SourceStates) -> SourceKV:
        """Make keys and values of a source; once is enough for all steps."""
        k, v = linear(self.key_value, source.hidden).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return SourceKV(k, v, source.layout)

    def forward(self, x: Tensor, layout: Layout, source: Source) -> Tensor:
        """(…, D) -> (…, D)."""
        kv = self.read(source) if isinstance(source, SourceStates) else source.source
        assert kv is not None  # noqa: S101
        q = linear(self.query, x).unflatten(-1, (self.heads, -1))
        q = q if self.rescale == 1.0 else q * self.rescale
        if kv.readers > 1:  # the beams of a text are so many queries to one source, whose keys are read once
            q = q.unflatten(0, (-1, kv.readers)).flatten(1, 2)
        mixed = self.attend(q, kv.k, kv.v, layout, kv.layout).flatten(-2)
        return linear(self.output, mixed.reshape(x.shape[:-1] + mixed.shape[-1:]))


class PostNormDecoderBlock(nn.Module):
    """The 2017 decoder block: self-attention, cross-attention, feed-forward; a norm after each residual sum."""

    def __init__(self, attention: Any, cross: CrossAttention, feedforward: Any, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.attention, self.norm_1 = attention, norm()
        self.cross, self.norm_2 = cross, norm()
        self.feedforward, self.norm_3 = feedforward, norm()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, source: Source, bias: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D), for a whole target beside its source, or for one more token after a cache."""
        cache = source if isinstance(source, LayerCache) else None
        x = self.norm_1(x + self.dropout(self.attention(x, layout, cache, bias)))
        x = self.norm_2(x + self.dropout(self.cross(x, layout, source)))
        return self.norm_3(x + self.dropout(self.feedforward(x)))


class PreNormDecoderBlock(nn.Module):
    """The same with a norm before each part: T5's."""

    def __init__(self, attention: Any, cross: CrossAttention, feedforward: Any, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm_1, self.attention = norm(), attention
        self.norm_2, self.cross = norm(), cross
        self.norm_3, self.feedforward = norm(), feedforward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout, source: Source, bias: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D), for a whole target beside its source, or for one more token after a cache."""
        cache = source if isinstance(source, LayerCache) else None
        x = x + self.dropout(self.attention(self.norm_1(x), layout, cache, bias))
        x = x + self.dropout(self.cross(self.norm_2(x), layout, source))
        return x + self.dropout(self.feedforward(self.norm_3(x)))


def per_layer(source: SourceStates | Cache) -> Iterable[Source]:
    """What each block of a stack is given: the same source, or its own part of the cache."""
    return source.layers if isinstance(source, Cache) else repeat(source)


class SharedTokens(EncoderDecoder):
    """A stack of blocks on either side of one token table: Marian, BART, mBART and M2M-100, with their field names.

    `pre_norm` puts norms before the parts of a block and one at the end of each side. The decoder may have `places` of
    its own.
    """

    def __init__(
        self, config: Any, embeddings: PositionedEmbeddings, places: Places | None = None, *, pre_norm: bool
    ) -> None:
        super().__init__()
        self.config = config
        self.embeddings = embeddings
        self.places = places
        width, rate = config.d_model, config.dropout
        norm = partial(nn.LayerNorm, width)
        self_attention = partial(MultiHeadAttention, width, dropout=config.attention_dropout)
        cross = partial(CrossAttention, width, dropout=config.attention_dropout)
        feedforward = partial(FeedForward, width, act=config.activation_function)
        heads, inner = config.encoder_attention_heads, config.encoder_ffn_dim
        block = PreNormBlock if pre_norm else PostNormBlock
        self.encoder_blocks = nn.ModuleList(
            block(self_attention(heads), feedforward(inner), norm, rate) for _ in range(config.encoder_layers)
        )
        heads, inner = config.decoder_attention_heads, config.decoder_ffn_dim
        writing = PreNormDecoderBlock if pre_norm else PostNormDecoderBlock
        self.decoder_blocks = nn.ModuleList(
            writing(self_attention(heads, causal=True), cross(heads), feedforward(inner), norm, rate)
            for _ in range(config.decoder_layers)
        )
        self.encoder_norm = norm() if pre_norm else nn.Identity()
        self.decoder_norm = norm() if pre_norm else nn.Identity()

    @property
    def max_length(self) -> int:
        """Longest source, and longest target, there are positions for."""
        return self.config.max_position_embeddings

    def encode(self, ids: Tensor, layout: Layout | None = None) -> SourceStates:
        """Read a source: ids (N,) packed or (B, S) padded."""
        layout = layout or Padded.full(ids)
        check_length(layout.max_length, self.max_length)
        x = self.embeddings(ids, layout.positions)
        for block in self.encoder_blocks:
            x = block(x, layout)
        return SourceStates(self.encoder_norm(x), layout)

    def decode(self, ids: Tensor, layout: Layout, source: SourceStates | Cache) -> Tensor:
        """Target ids (…) -> hidden states (…, D): all at once beside a source, or the next ones after a cache."""
        check_length(source.max_length if isinstance(source, Cache) else layout.max_length, self.max_length)
        x = self.embeddings(ids, layout.positions, self.places)
        for block, layer_source in zip(self.decoder_blocks, per_layer(source), strict=False):
            x = block(x, layout, layer_source)
        return self.decoder_norm(x)


def check_shared_tokens(config: Any) -> None:
    """Check a configuration with the field names of these families."""
    check_config(config)
    start, size = getattr(config, "decoder_start_token_id", None), config.vocab_size
    require(start is None or start < size, f"decoder_start_token_id {start} must be less than vocab_size {size}")
    activation(config.activation_function)
    check_heads(config.d_model, config.encoder_attention_heads, ("d_model", "encoder_attention_heads"))
    check_heads(config.d_model, config.decoder_attention_heads, ("d_model", "decoder_attention_heads"))
