"""XLNet (Yang et al. 2019): words predicted in any order, each from all that came before it in that order.

An encoder as BERT's, with positions as distances (Transformer-XL) and no mask in its input: a second stream of queries,
which know their positions alone, predicts the words. Classification reads the last token, <cls>. Segments of a long
text may be read one after another with a memory of those before; in fine-tuning there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.nn.blocks import Encoder, FeedForward, check_transformer
from clearhead.nn.embeddings import UNLIMITED, TokenEmbeddings, initialise
from clearhead.nn.heads import HeadMakers, Pooler, SequenceHead, TokenHead, build_heads
from clearhead.nn.layout import Layout, Packed, Padded
from clearhead.nn.memory import Memory
from clearhead.nn.relative import RelativeAttention, Stream, TwoStreamBlock, attention_pattern, distances, remembered


@dataclass(frozen=True, kw_only=True, slots=True)
class XLNetConfig:
    """Field names are those of the published config.json; the defaults are XLNet-large."""

    vocab_size: int = 32000
    d_model: int = 1024
    n_layer: int = 24
    n_head: int = 16
    d_inner: int = 4096
    ff_activation: str = "gelu"
    dropout: float = 0.1
    summary_last_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int = 5
    bos_token_id: int = 1
    eos_token_id: int = 2

    def __post_init__(self) -> None:
        check_transformer(self, act="ff_activation", width="d_model", heads="n_head")

    # by BERT's names
    hidden_size = property(attrgetter("d_model"))
    num_hidden_layers = property(attrgetter("n_layer"))
    num_attention_heads = property(attrgetter("n_head"))


class XLNet(Encoder):
    """Ids to hidden states, in either layout; and positions to hidden states, for words to predict (`guess`)."""

    max_length = UNLIMITED  # positions are relative

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        self.config = config
        rate = config.dropout
        norm = partial(nn.LayerNorm, config.d_model, eps=config.layer_norm_eps)
        self.embeddings = TokenEmbeddings(config.vocab_size, config.d_model, norm=nn.Identity(), dropout=rate)
        self.query = nn.Parameter(torch.zeros(config.d_model))  # what every query starts as
        attention = partial(RelativeAttention, config.d_model, config.n_head, dropout=rate)
        feedforward = partial(FeedForward, config.d_model, config.d_inner, act=config.ff_activation)
        self.blocks = nn.ModuleList(
            TwoStreamBlock(attention(), feedforward(), norm, rate) for _ in range(config.n_layer)
        )
        self.dropout = nn.Dropout(rate)
        initialise(self, config.initializer_range)
        for name, parameter in self.named_parameters():
            if name.endswith(("_bias", "segment", "query")):
                nn.init.normal_(parameter, std=config.initializer_range)

    def forward(
        self,
        ids: Tensor,
        layout: Layout | None = None,
        segments: Tensor | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D); every token attends to all others.

        With a `memory`, which takes rectangles padded at their end, they go on from what it holds and are remembered.
        """
        layout = layout or Padded.full(ids)
        text, keys = self._streams(Stream(layout, layout.positions, _segments(ids, segments)), memory)
        x, given = self.embeddings(ids), []
        table, pattern = self._table(keys.layout, x), attention_pattern(text, keys, itself=True)
        for number, block in enumerate(self.blocks):
            given.append(x)
            x = block(x, table, pattern, before=None if memory is None else memory.before(number))
        if memory is not None:
            memory.remember(given)
        return self.dropout(x)

    def guess(
        self,
        ids: Tensor,
        layout: Layout,
        rank: Tensor,
        where: Tensor,
        asked: Packed,
        segments: Tensor | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """The query stream: hidden states (M, D) that predict the words at `where` (M,), indices into all ids.

        `asked` lays the queries out by text. A token attends to those of lower `rank` (…) and itself; a query to
        those of lower rank alone. For `memory` see `forward`.
        """
        text, keys = self._streams(Stream(layout, layout.positions, _segments(ids, segments), rank), memory)
        queries = Stream(asked, *(part.flatten()[where] for part in (text.position, text.segment, rank)))
        x, given = self.embeddings(ids), []
        y = self.dropout(self.query.expand(len(where), -1))
        table = self._table(keys.layout, x)
        patterns = attention_pattern(text, keys, itself=True), attention_pattern(queries, keys, itself=False)
        for number, block in enumerate(self.blocks):
            given.append(x)
            x, y = block(x, table, patterns[0], y, patterns[1], None if memory is None else memory.before(number))
        if memory is not None:
            memory.remember(given)
        return self.dropout(y)

    def _streams(self, text: Stream, memory: Memory | None) -> tuple[Stream, Stream]:
        """The queries and the keys of the content stream: the same, unless something is remembered."""
        if memory is None or not memory.tokens:
            return text, text
        return remembered(text, memory.tokens)

    def _table(self, layout: Layout, like: Tensor) -> Tensor:
        return self.dropout(distances(layout.max_length, self.config.d_model, like))


def _segments(ids: Tensor, segments: Tensor | None) -> Tensor:
    return torch.zeros_like(ids) if segments is None else segments


class PermutationLMHead(nn.Module):
    """Logits of the word at each position: the output matrix is the token embedding; each word has a bias."""

    def __init__(self, token: nn.Embedding) -> None:
        super().__init__()
        self.weight = token.weight  # the very same parameter, (V, D)
        self.bias = nn.Parameter(torch.zeros(token.num_embeddings))

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (…, V)."""
        return F.linear(hidden, self.weight, self.bias)


def heads(xlnet: XLNet, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    """Build the named heads, each with its number of outputs; those that read <cls> share one pooler."""
    config = xlnet.config
    pooler = Pooler(config.d_model, act="tanh", pooling="last")
    of_text = partial(SequenceHead, pooler, config.d_model, dropout=config.summary_last_dropout)
    makers: HeadMakers = {
        "permutation_lm": lambda _: PermutationLMHead(xlnet.embeddings.token),
        "classes": of_text,
        "choice": of_text,
        "tags": lambda n: TokenHead(config.d_model, n),
        "span": lambda n: TokenHead(config.d_model, n),
    }
    return build_heads(makers, outputs, config.initializer_range)


def _preset(layers: int, width: int, heads: int) -> XLNetConfig:
    return XLNetConfig(n_layer=layers, d_model=width, n_head=heads, d_inner=4 * width)


# Yang et al. 2019, appendix A.4; "mini" and "small" are sizes to try things with
PRESETS = {
    "mini": _preset(4, 256, 4),
    "small": _preset(6, 512, 8),
    "base": _preset(12, 768, 12),
    "large": _preset(24, 1024, 16),
}
