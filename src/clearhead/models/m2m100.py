"""M2M-100 (Fan et al. 2020) and NLLB (2022): one Transformer for all pairs of a hundred, or two hundred, languages.

Beside the Transformer of 2017: norms before each part and one after either side, and sines that count from after the
padding's id. A token of the source's language stands beside the source; the first token written is made to be the
target's language, after the end token.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from clearhead.errors import require
from clearhead.nn.decoder import SharedTokens, check_shared_tokens
from clearhead.nn.embeddings import PositionedEmbeddings, initialise
from clearhead.nn.heads import NextTokenHead
from clearhead.nn.positions import SinusoidalPositions


@dataclass(frozen=True, kw_only=True, slots=True)
class M2M100Config:
    """Field names are those of the published config.json; the defaults are M2M-100 with 418 M parameters.

    >>> from clearhead.models.m2m100 import M2M100Config
    >>> M2M100Config(vocab_size=256206).decoder_start_token_id  # NLLB's vocabulary; the end token
    2
    """

    vocab_size: int = 128112
    d_model: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    activation_function: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    init_std: float = 0.02
    pad_token_id: int = 1
    bos_token_id: int = 0
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def __post_init__(self) -> None:
        check_shared_tokens(self)
        require(self.d_model % 2 == 0, f"d_model must be even for sines and cosines, got {self.d_model}")


class M2M100(SharedTokens):
    """A source and the target so far to hidden states of the target."""

    def __init__(self, config: M2M100Config) -> None:
        width = config.d_model
        positions = SinusoidalPositions(config.max_position_embeddings, width, first=config.pad_token_id + 1)
        scale = width**0.5 if config.scale_embedding else 1.0
        embeddings = PositionedEmbeddings(config.vocab_size, width, positions, dropout=config.dropout, scale=scale)
        super().__init__(config, embeddings, pre_norm=True)
        initialise(self, config.init_std)

    @property
    def decoder_start_token_id(self) -> int:
        """The token that the decoder begins with: the end."""
        return self.config.decoder_start_token_id


def heads(m2m100: M2M100, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads: there is one."""
    build = {"causal_lm": lambda: NextTokenHead(m2m100.embeddings.token)}
    return {name: build[name]() for name in outputs}


# Fan et al. 2020, section 4
PRESETS = {"418M": M2M100Config()}
