"""DistilBERT (Sanh et al. 2019): BERT with half the layers, trained to agree with the whole one.

No segments, no pooler; each head that reads [CLS] has a layer of its own, with ReLU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import nn

from clearhead.nn.blocks import Encoder, check_transformer, post_norm_blocks
from clearhead.nn.embeddings import SummedEmbeddings, initialise
from clearhead.nn.heads import HeadMakers, MaskedLMHead, Pooler, SequenceHead, TokenHead, build_heads
from clearhead.nn.positions import sinusoidal_interleaved


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertConfig:
    """Field names are those of the published config.json; the defaults are DistilBERT-base, uncased.

    >>> from clearhead import DistilBertConfig
    >>> DistilBertConfig().n_layers  # half of BERT-base
    6
    """

    vocab_size: int = 30522
    max_position_embeddings: int = 512
    sinusoidal_pos_embds: bool = False  # how the positions start, not how they are used
    n_layers: int = 6
    n_heads: int = 12
    dim: int = 768
    hidden_dim: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    initializer_range: float = 0.02
    qa_dropout: float = 0.1
    seq_classif_dropout: float = 0.2
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_transformer(self, act="activation", width="dim", heads="n_heads")

    # by BERT's names
    hidden_size = property(attrgetter("dim"))
    num_hidden_layers = property(attrgetter("n_layers"))
    num_attention_heads = property(attrgetter("n_heads"))
    intermediate_size = property(attrgetter("hidden_dim"))
    hidden_act = property(attrgetter("activation"))
    hidden_dropout_prob = property(attrgetter("dropout"))
    attention_probs_dropout_prob = property(attrgetter("attention_dropout"))
    type_vocab_size = 0
    layer_norm_eps = 1e-12  # the published configuration has no field for it


class DistilBert(Encoder):
    """Ids to hidden states, in either layout."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = SummedEmbeddings(config, config.dim)
        self.blocks = post_norm_blocks(config, config.num_hidden_layers)
        initialise(self, config.initializer_range)
        if config.sinusoidal_pos_embds:
            table = sinusoidal_interleaved(config.max_position_embeddings, config.dim)
            with torch.no_grad():
                self.embeddings.position.weight.copy_(table)


def heads(distilbert: DistilBert, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs."""
    config, width, token = distilbert.config, distilbert.config.dim, distilbert.embeddings.token
    makers: HeadMakers = {
        "masked_lm": lambda _: MaskedLMHead(width, token, act=config.activation, norm_eps=config.layer_norm_eps),
        "classes": lambda n: SequenceHead(Pooler(width, act="relu"), width, n, config.seq_classif_dropout),
        "choice": lambda n: SequenceHead(Pooler(width, act="relu"), width, n, config.seq_classif_dropout),
        "tags": lambda n: TokenHead(width, n, config.dropout),
        "span": lambda n: TokenHead(width, n, config.qa_dropout),
    }
    return build_heads(makers, outputs, config.initializer_range)


PRESETS = {"base": DistilBertConfig()}
