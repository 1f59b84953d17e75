"""The recurrent language model (Mikolov et al. 2010, with LSTM as in Zaremba et al. 2014): which token comes next?

The table of tokens is also the output matrix (Press and Wolf 2017).
"""

# B batch · N packed tokens · D width · L layers · V vocabulary

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from clearhead.errors import check_config
from clearhead.nn.layout import Packed, pack_ids
from clearhead.nn.recurrent import DecodingState, RecurrentLayers


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentLMConfig:
    """Sizes; the defaults are the medium model of Zaremba et al. 2014."""

    vocab_size: int = 10_000
    hidden_size: int = 650
    num_hidden_layers: int = 2
    dropout: float = 0.5
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_config(self)


class RecurrentLM(nn.Module):
    """Ids to logits of the next token. `core` is nn.LSTM or nn.GRU."""

    def __init__(self, config: RecurrentLMConfig, core: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.config = config
        width, layers = config.hidden_size, config.num_hidden_layers
        self.token = nn.Embedding(config.vocab_size, width)
        self.layers = RecurrentLayers(core(width, width, layers, dropout=config.dropout if layers > 1 else 0.0))
        self.output = nn.Linear(width, config.vocab_size)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.token.weight, std=0.1)
        self.output.weight = self.token.weight

    def forward(self, ids: Tensor, layout: Packed) -> Tensor:
        """Ids (N,), packed -> logits (N, V) of the token after each."""
        read, _ = self.layers(self.dropout(self.token(ids)), layout)
        return self.output(self.dropout(read))

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, DecodingState]:
        """Read the prompts: logits (B, V) of the first new token, and the state."""
        ids, layout = pack_ids(prompts, "prompt", self.output.weight.device)
        read, states = self.layers(self.dropout(self.token(ids)), layout)
        return self.output(self.dropout(layout.last(read))), DecodingState(states)

    def step(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        """Append one token (B,) to each text: logits (B, V) of the next, and the new state."""
        read, states = self.layers.step(self.dropout(self.token(tokens)), state.states)
        return self.output(self.dropout(read)), DecodingState(states)


# by the `model_type` of our own config.json
BUILD: dict[str, Callable[[RecurrentLMConfig], RecurrentLM]] = {
    "rnnlm-lstm": partial(RecurrentLM, core=nn.LSTM),
    "rnnlm-gru": partial(RecurrentLM, core=nn.GRU),
}

# Zaremba et al. 2014, sections 4.1 and 4.2; "mini" is for a laptop
PRESETS = {
    "mini": RecurrentLMConfig(hidden_size=256, num_hidden_layers=1),
    "small": RecurrentLMConfig(hidden_size=200, dropout=0.0),
    "medium": RecurrentLMConfig(),
    "large": RecurrentLMConfig(hidden_size=1500, dropout=0.65),
}
