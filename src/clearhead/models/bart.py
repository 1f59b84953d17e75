"""BART (Lewis et al. 2019): a Transformer that learnt to restore damaged text; and mBART (Liu et al. 2020).

Beside the Transformer of 2017: positions are learned, for either side its own, and the embeddings are normalised; mBART
has its norms before each part and one more after either side. Classes and spans are read from the decoder, which is
given the text that the encoder reads. What is written follows the end token, in mBART the language's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from clearhead.nn.decoder import SharedTokens, check_shared_tokens
from clearhead.nn.embeddings import Places, PositionedEmbeddings, initialise
from clearhead.nn.heads import NextTokenHead, Pooler, SequenceHead, TokenHead
from clearhead.nn.layout import Layout, Padded
from clearhead.nn.positions import LearnedPositions

_FIRST = 2  # rows of the position tables that are never read


@dataclass(frozen=True, kw_only=True, slots=True)
class BartConfig:
    """Field names are those of the published config.json; the defaults are BART-large.

    >>> from clearhead.models.bart import BartConfig
    >>> BartConfig().decoder_start_token_id  # the end token
    2
    """

    vocab_size: int = 50265
    d_model: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    classifier_dropout: float = 0.0
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    init_std: float = 0.02
    pad_token_id: int = 1
    bos_token_id: int = 0
    eos_token_id: int = 2
    decoder_start_token_id: int | None = 2

    def __post_init__(self) -> None:
        check_shared_tokens(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class MBartConfig(BartConfig):
    """The same for mBART, which starts with a language where config.json says which, else with the begin token.

    >>> from clearhead.models.bart import MBartConfig
    >>> MBartConfig(decoder_start_token_id=250020).decoder_start_token_id  # ro_RO in the published vocabulary
    250020
    """

    decoder_start_token_id: int | None = None


class Bart(SharedTokens):
    """A source and the target so far to hidden states of the target; a text alone is given to both sides."""

    pre_norm = False
    opens_with_bos = True

    def __init__(self, config: BartConfig) -> None:
        width, length = config.d_model, config.max_position_embeddings
        scale = width**0.5 if config.scale_embedding else 1.0
        position, norm = LearnedPositions(length, width, first=_FIRST), nn.LayerNorm(width)
        embeddings = PositionedEmbeddings(
            config.vocab_size, width, position, dropout=config.dropout, scale=scale, norm=norm
        )
        places = Places(LearnedPositions(length, width, first=_FIRST), nn.LayerNorm(width))
        super().__init__(config, embeddings, places, pre_norm=self.pre_norm)
        initialise(self, config.init_std)

    @property
    def decoder_start_token_id(self) -> int:
        """The token that the decoder begins with."""
        start = self.config.decoder_start_token_id
        return self.config.bos_token_id if start is None else start

    def forward(self, ids: Tensor, layout: Layout | None = None, source: Any = None) -> Tensor:
        """Target ids and their source, as other encoder–decoders; without one, ids are both, the target one later."""
        if hasattr(source, "ids"):
            return super().forward(ids, layout, source)
        layout = layout or Padded.full(ids)
        before = ids.roll(1, -1).masked_fill(layout.positions == 0, self.decoder_start_token_id)
        return self.decode(before, layout, self.encode(ids, layout))


class MBart(Bart):
    """The same with norms before each part; a source has its language beside it."""

    pre_norm = True
    opens_with_bos = False


def heads(bart: Bart, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; classes are read from the end token."""
    width, dropout = bart.config.d_model, bart.config.classifier_dropout
    makers = {
        "causal_lm": lambda _: NextTokenHead(bart.embeddings.token, bias=True),
        "classes": lambda n: SequenceHead(
            Pooler(width, act="tanh", dropout=dropout, pooling="last"), width, n, dropout
        ),
        "span": lambda n: TokenHead(width, n),
    }
    built = {name: makers[name](count) for name, count in outputs.items()}
    for name, head in built.items():
        if name != "causal_lm":  # whose matrix is the tokens'
            initialise(head, bart.config.init_std)
    return built


def _preset(layers: int, width: int, heads: int) -> BartConfig:
    return BartConfig(
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
    )


# Lewis et al. 2019, section 4
PRESETS = {"base": _preset(6, 768, 12), "large": _preset(12, 1024, 16)}
