"""A network with a "causal_lm" head as something that begins and steps: decoder-only, or encoder–decoder."""

# B batch · V vocabulary

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from clearhead.decoding.contract import Continues
from clearhead.errors import WrongTask
from clearhead.nn.cache import Cache
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.layout import lay_out
from clearhead.nn.network import Network


def continuing(network: Network) -> Continues:
    """Let a network of models.GENERATORS be decoded; it should be in evaluation mode."""
    if "causal_lm" not in network.heads:
        raise WrongTask(
            "this model writes no text: it has no head 'causal_lm', but "
            f"{', '.join(network.heads) or 'none'}; choose one that does, such as GPT-2, T5 or OPUS-MT"
        )
    return Sourced(network) if isinstance(network.encoder, EncoderDecoder) else Prompted(network)


class Prompted:
    """A decoder alone: it goes on from prompts."""

    def __init__(self, network: Network) -> None:
        self.body: Any = network.encoder
        self.head: Any = network.heads["causal_lm"]

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Cache]:
        """Read the prompts: logits (B, V) of the first new token."""
        ids, layout = lay_out(prompts, "prompt", self.head.weight.device)
        cache = Cache.prompted(len(self.body.blocks), layout)
        hidden = self.body(ids, layout, cache=cache)
        return self.head(layout.last(hidden), layout), cache

    def step(self, tokens: Tensor, state: Cache) -> tuple[Tensor, Cache]:
        """Append one token (B,) to every sequence: logits (B, V) of the token after it."""
        layout = state.step()
        hidden = self.body(tokens[:, None], layout, cache=state)
        return self.head(hidden[:, 0], layout), state


class Sourced:
    """An encoder–decoder: it reads sources and writes from nothing but a start token."""

    def __init__(self, network: Network) -> None:
        self.body: Any = network.encoder
        self.head: Any = network.heads["causal_lm"]

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Cache]:
        """Read the sources: logits (B, V) of the first token."""
        ids, layout = lay_out(prompts, "source", self.head.weight.device)
        cache = self.body.remember(self.body.encode(ids, layout))
        return self.step(ids.new_full((len(prompts),), self.body.config.start), cache)

    def step(self, tokens: Tensor, state: Cache) -> tuple[Tensor, Cache]:
        """Append one token (B,) to every target: logits (B, V) of the token after it."""
        layout = state.step()
        hidden = self.body.decode(tokens[:, None], layout, state)
        return self.head(hidden[:, 0], layout), state
