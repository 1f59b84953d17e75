"""The Transformer (Vaswani et al. 2017): an encoder reads the source, a decoder attends to it and writes; post-norm.

One token embedding serves source, target and output, times √D where it is read; positions are sines and cosines. These
are also the networks of Marian and OPUS-MT, whose field names and order of sines we keep, so that a checkpoint of one
is a checkpoint of the other; Marian adds a bias to the logits. The first token written follows the padding token.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from clearhead.errors import require
from clearhead.nn.decoder import SharedTokens, check_shared_tokens
from clearhead.nn.embeddings import PositionedEmbeddings
from clearhead.nn.heads import NextTokenHead
from clearhead.nn.positions import SinusoidalPositions


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """Field names are those of Marian's published config.json, and the defaults are its defaults."""

    vocab_size: int = 58101
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
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    pad_token_id: int = 58100
    eos_token_id: int = 0

    def __post_init__(self) -> None:
        check_shared_tokens(self)
        require(self.d_model % 2 == 0, f"d_model must be even for sines and cosines, got {self.d_model}")


class Transformer(SharedTokens):
    """A source and the target so far to hidden states of the target."""

    def __init__(self, config: TransformerConfig) -> None:
        width = config.d_model
        positions = SinusoidalPositions(config.max_position_embeddings, width)
        scale = width**0.5 if config.scale_embedding else 1.0
        embeddings = PositionedEmbeddings(config.vocab_size, width, positions, dropout=config.dropout, scale=scale)
        super().__init__(config, embeddings, pre_norm=False)
        self._initialise()

    def _initialise(self) -> None:
        # the authors' code: Glorot for matrices, and embeddings of length one once they are scaled
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)
        nn.init.normal_(self.embeddings.token.weight, std=self.config.d_model**-0.5)


def heads(transformer: Transformer, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads: there is one."""
    build = {"causal_lm": lambda: NextTokenHead(transformer.embeddings.token, bias=True)}
    return {name: build[name]() for name in outputs}


def _preset(width: int, inner: int, heads: int, dropout: float, layers: int = 6) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=37000,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        activation_function="relu",
        dropout=dropout,
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=1,
    )


# Vaswani et al. 2017, table 3; "tiny" is for small data, such as Multi30k
PRESETS = {
    "tiny": _preset(256, 1024, 4, 0.3, layers=3),
    "base": _preset(512, 2048, 8, 0.1),
    "big": _preset(1024, 4096, 16, 0.3),
}
