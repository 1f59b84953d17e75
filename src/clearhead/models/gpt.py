"""GPT-2 (Radford et al. 2019): the decoder alone. Every token attends to those before it and predicts the next.

Pre-norm with a last norm, learned positions, GELU; the output matrix is the token embedding. Classification reads the
last token, as GPT did first (Radford et al. 2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import sqrt
from operator import attrgetter

from torch import Tensor, nn

from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import Encoder, FeedForward, PreNormBlock, check_transformer
from clearhead.nn.cache import Cache
from clearhead.nn.embeddings import PositionedEmbeddings, check_length, initialise
from clearhead.nn.heads import HeadMakers, LastTokenHead, NextTokenHead, TokenHead, build_heads
from clearhead.nn.layout import Layout, Padded


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpt2Config:
    """Field names are those of the published config.json; the defaults are GPT-2 small."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # four times the width
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    bos_token_id: int = 50256
    eos_token_id: int = 50256
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        check_transformer(self, act="activation_function", width="n_embd", heads="n_head")

    # by BERT's names
    hidden_size = property(attrgetter("n_embd"))
    num_hidden_layers = property(attrgetter("n_layer"))
    num_attention_heads = property(attrgetter("n_head"))
    max_position_embeddings = property(attrgetter("n_positions"))


class Gpt2(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.config = config
        position = nn.Embedding(config.n_positions, config.n_embd)
        self.embeddings = PositionedEmbeddings(config.vocab_size, config.n_embd, position, dropout=config.embd_pdrop)
        norm = partial(nn.LayerNorm, config.n_embd, eps=config.layer_norm_epsilon)
        inner = config.n_inner or 4 * config.n_embd
        self.blocks = nn.ModuleList(
            PreNormBlock(
                MultiHeadAttention(config.n_embd, config.n_head, dropout=config.attn_pdrop, causal=True),
                FeedForward(config.n_embd, inner, act=config.activation_function),
                norm=norm,
                dropout=config.resid_pdrop,
            )
            for _ in range(config.n_layer)
        )
        self.norm = norm()
        initialise(self, config.initializer_range)
        for block in self.blocks:  # what adds to the residual stream starts small, so that it does not grow with depth
            for name in ("attention.output.weight", "feedforward.down.weight"):
                nn.init.normal_(block.get_parameter(name), std=config.initializer_range / sqrt(2 * config.n_layer))

    def forward(
        self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D). Segments are ignored: there is no table.

        With a `cache`, the ids go on from what it holds.
        """
        layout = layout or Padded.full(ids)
        check_length(cache.max_length if cache else layout.max_length, self.max_length)
        x = self.embeddings(ids, layout.positions)
        for i, block in enumerate(self.blocks):
            x = block(x, layout, cache.layers[i] if cache else None)
        return self.norm(x)


def heads(gpt: Gpt2, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs."""
    width = gpt.config.n_embd
    makers: HeadMakers = {
        "causal_lm": lambda _: NextTokenHead(gpt.embeddings.token),
        "classes": lambda n: LastTokenHead(width, n),
        "tags": lambda n: TokenHead(width, n, gpt.config.resid_pdrop),
    }
    return build_heads(makers, outputs, gpt.config.initializer_range)


def _preset(layers: int, width: int, heads: int) -> Gpt2Config:
    return Gpt2Config(n_layer=layers, n_embd=width, n_head=heads)


# Radford et al. 2019, table 2, by the names that the models have since; "mini" is for a laptop
PRESETS = {
    "mini": _preset(4, 256, 4),
    "small": _preset(12, 768, 12),
    "medium": _preset(24, 1024, 16),
    "large": _preset(36, 1280, 20),
    "xl": _preset(48, 1600, 25),
}
