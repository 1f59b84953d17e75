"""What a model must do to be decoded: begin, then step; and what decoding gives back."""

# B rows · V vocabulary

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from torch import Tensor

from clearhead.decoding.cuda_graphs import GraphedDecoder
from clearhead.errors import BadCheckpoint, WrongTask, renamed, require
from clearhead.nn.cache import Cache
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.layout import pack_ids


@dataclass(frozen=True)
class Output:
    """One text that was written: its new tokens, without the one that ended it."""

    tokens: list[int]
    score: float  # sum of the log probabilities; of a beam, divided by length ** length_penalty
    log_probabilities: list[float]  # of each token, and of the end if there is one
    ended: bool  # by an end token or a stop string, not by the limit


@dataclass(frozen=True)
class Step:
    """What the model believed before one token: the likeliest tokens of one row."""

    number: int
    text: int  # which prompt or source
    written: list[int]  # new tokens so far
    candidates: list[tuple[int, float]]  # token and probability, likeliest first
    chosen: list[int]  # the token taken; of a beam, those that went on from here


@renamed(top="top_k")
@dataclass
class Recorder:
    """Give one to a decoder to see its steps. Attention is seen with `nn.hooks` on the `Attend` parts."""

    top_k: int = 5
    steps: list[Step] = field(default_factory=list)

    def note(
        self, texts: Sequence[int], written: Sequence[Sequence[int]], logits: Tensor, chosen: Sequence[Sequence[int]]
    ) -> None:
        """Keep one step of all rows: which text each belongs to, and its logits (B, V) before any control."""
        values, tokens = logits.topk(min(self.top_k, logits.shape[-1]))
        probabilities = (values - logits.logsumexp(-1, keepdim=True)).exp()
        for text, before, best, likely, taken in zip(
            texts, written, tokens.tolist(), probabilities.tolist(), chosen, strict=True
        ):
            candidates = list(zip(best, likely, strict=True))
            self.steps.append(Step(len(before), text, list(before), candidates, list(taken)))


def log_probabilities(logits: Tensor) -> Tensor:
    """Log probabilities of all tokens, (B, V) -> (B, V)."""
    # on a CPU quicker than torch.logsumexp, though it makes a number for every token
    return logits.float().log_softmax(-1)


def check_numbers(log_probs: Iterable[float]) -> None:
    """Refuse a model that computes no numbers: one that is none makes all log probabilities of its row none."""
    if any(map(math.isnan, log_probs)):
        raise BadCheckpoint(
            "the model's scores are not numbers (NaN or infinite): its weights are damaged, or too large for their "
            "type; use another checkpoint"
        )


class State(Protocol):
    """What a model remembers between two steps, such as a key–value cache: one row for every running sequence."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of these rows (int64), in this order, repeated or left out: beams move, the finished leave.

        The old state must not be used afterwards: the new one may share its memory.
        """


class Decoder(Protocol):
    """A model that writes on. A decoder-only model begins with prompts, an encoder–decoder with sources."""

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """Read the prompts or sources: logits (B, V) of the first new token, and the `State` to go on from."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append one token (B,) to every sequence: logits (B, V) of the token after it, and the new `State`."""


def as_decoder(network: Network, start: int | None = None) -> Decoder:
    """Let a network of models.GENERATORS be decoded; it should be in evaluation mode.

    An encoder–decoder begins with the token `start`, if it is not the family's own.
    """
    told = f"it has no head 'causal_lm', but {', '.join(network.heads) or 'none'}"
    todo = "choose one that does, such as GPT-2, T5 or OPUS-MT"
    require("causal_lm" in network.heads, f"this model writes no text: {told}; {todo}", WrongTask)
    sourced = isinstance(network.encoder, EncoderDecoder)
    return GraphedDecoder(_SourceDecoder(network, start) if sourced else _PromptDecoder(network), network)


class _PromptDecoder:
    """A decoder alone: it goes on from prompts."""

    def __init__(self, network: Network) -> None:
        self.body: Any = network.encoder
        self.head: Any = network.heads["causal_lm"]

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Cache]:
        ids, layout = pack_ids(prompts, "prompt", self.head.weight.device)
        cache = Cache.for_prompts(len(self.body.blocks), layout)
        hidden = self.body(ids, layout, cache=cache)
        return self.head(layout.last(hidden), layout), cache

    def step(self, tokens: Tensor, state: Cache) -> tuple[Tensor, Cache]:
        layout = state.step()
        hidden = self.body(tokens[:, None], layout, cache=state)
        return self.head(hidden[:, 0], layout), state


class _SourceDecoder(_PromptDecoder):
    """An encoder–decoder: it reads sources and writes from nothing but a start token."""

    def __init__(self, network: Network, start: int | None = None) -> None:
        super().__init__(network)
        self.start = self.body.decoder_start_token_id if start is None else start

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Cache]:
        ids, layout = pack_ids(prompts, "source", self.head.weight.device)
        cache = self.body.init_cache(self.body.encode(ids, layout))
        return self.step(ids.new_full((len(prompts),), self.start), cache)

    def step(self, tokens: Tensor, state: Cache) -> tuple[Tensor, Cache]:
        layout = state.step()
        hidden = self.body.decode(tokens[:, None], layout, state)
        return self.head(hidden[:, 0], layout), state
