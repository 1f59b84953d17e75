"""Sequence to sequence with recurrent networks (Sutskever et al. 2014, Cho et al. 2014), without and with attention.

An encoder reads the source, a decoder starts from where it ended and writes the target. LSTM or GRU, the kind of
context and what the decoder's layers are fed are parts. `Apart`: they read only what was written, and the context joins
them before the next word is chosen, so that training runs over whole sentences at once. `InputFeeding` is Luong et al.
2015 (section 3.3), `ContextFirst` Bahdanau et al. 2015, but for the maxout before their words: both go word by word.
"""

# B batch · N packed tokens · T longest target · E embedding width · D width · L layers · V vocabulary

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, check_config, require
from clearhead.nn.alignment import AdditiveScore, AttentionContext, DotScore, FixedContext, GeneralScore, Memory
from clearhead.nn.hooks import evaluating, record
from clearhead.nn.layout import Packed, pack_ids
from clearhead.nn.recurrent import DecodingState, RecurrentLayers, States, joined_directions


@dataclass(frozen=True, kw_only=True, slots=True)
class Seq2SeqConfig:
    """Sizes; both languages share one vocabulary. The encoder reads in both directions, each half as wide."""

    vocab_size: int = 8000
    embedding_size: int = 256
    hidden_size: int = 512
    num_hidden_layers: int = 1
    bidirectional: bool = True
    dropout: float = 0.3
    pad_token_id: int = 1
    bos_token_id: int = 0
    eos_token_id: int = 2

    def __post_init__(self) -> None:
        check_config(self)
        fits = self.hidden_size % 2 == 0 or not self.bidirectional
        require(fits, f"hidden_size {self.hidden_size} must be even for two directions; add 1 or set bidirectional")
        for name in ("bos_token_id", "eos_token_id"):
            require(getattr(self, name) < self.vocab_size, f"{name} must be less than vocab_size {self.vocab_size}")


Context = Callable[[int], AttentionContext | FixedContext]


@dataclass(frozen=True)
class Fed:
    """What a decoder attends to, and the vector that it is fed with the next word."""

    memory: Memory
    vector: Tensor  # (B, E)

    def select(self, rows: Tensor) -> "Fed":
        """Take these rows, in this order."""
        return Fed(self.memory.select(rows), self.vector[rows])


class Apart:
    """The decoder's layers read what was written, and nothing of the context."""

    @staticmethod
    def width(config: Seq2SeqConfig) -> int:
        """How much wider than a word's vector the decoder's input is."""
        return 0

    def begin(self, network: "Seq2Seq", memory: Memory) -> Any:
        """What the first step is given beside the states."""
        return memory

    def run(self, network: "Seq2Seq", embedded: Tensor, layout: Packed, states: States, memory: Memory) -> Tensor:
        """All words of the targets at once, (N, E) packed -> (N, E), what the next words are chosen by."""
        written, _ = network.decoder(embedded, layout, states)
        padded, _ = layout.pad(written)  # (B, T, D)
        context = network.context(padded, memory)
        return network.joined(written, context.flatten(0, 1)[layout.places])

    def step(self, network: "Seq2Seq", embedded: Tensor, states: States, beside: Any) -> tuple[Tensor, States, Any]:
        """One word of each target: (B, E) -> (B, E), the new states, and what the next step is given."""
        written, states = network.decoder.step(embedded, states)
        context = network.context(written.unsqueeze(1), beside).squeeze(1)
        return network.joined(written, context), states, beside


def word_by_word(network: "Seq2Seq", embedded: Tensor, layout: Packed, states: States, memory: Memory) -> Tensor:
    """As `Apart.run`, one step after another: each is fed what the one before found."""
    padded, _ = layout.pad(embedded)  # (B, T, E)
    beside: Any = network.feeding.begin(network, memory)
    step: Any = network.feeding.step
    found = []
    for word in padded.unbind(1):
        joined, states, beside = step(network, word, states, beside)
        found.append(joined)
    return torch.stack(found, 1).flatten(0, 1)[layout.places] if found else embedded


class InputFeeding:
    """With each word the decoder reads what the word before it was chosen by, at first nothing: zeros."""

    run = staticmethod(word_by_word)

    @staticmethod
    def width(config: Seq2SeqConfig) -> int:
        """How much wider than a word's vector the decoder's input is."""
        return config.embedding_size

    def begin(self, network: "Seq2Seq", memory: Memory) -> Fed:
        """Nothing was chosen before the first word."""
        return Fed(memory, memory.hidden.new_zeros(memory.hidden.shape[0], network.config.embedding_size))

    def step(self, network: "Seq2Seq", embedded: Tensor, states: States, beside: Fed) -> tuple[Tensor, States, Fed]:
        """One word of each target: (B, E) -> (B, E), the new states, and what the next step is fed."""
        written, states = network.decoder.step(torch.cat((embedded, network.dropout(beside.vector)), -1), states)
        context = network.context(written.unsqueeze(1), beside.memory).squeeze(1)
        joined = network.joined(written, context)
        return joined, states, Fed(beside.memory, joined)


class ContextFirst:
    """The context of a word is that of the state before it, and the decoder reads it with the word before."""

    run = staticmethod(word_by_word)

    @staticmethod
    def width(config: Seq2SeqConfig) -> int:
        """How much wider than a word's vector the decoder's input is."""
        return config.hidden_size

    def begin(self, network: "Seq2Seq", memory: Memory) -> Memory:
        """The states say all that is needed."""
        return memory

    def step(
        self, network: "Seq2Seq", embedded: Tensor, states: States, beside: Memory
    ) -> tuple[Tensor, States, Memory]:
        """One word of each target: (B, E) -> (B, E), the new states, and what the next step is given."""
        context = network.context(states[0][-1].unsqueeze(1), beside).squeeze(1)
        written, states = network.decoder.step(torch.cat((embedded, network.dropout(context)), -1), states)
        return network.joined(written, context), states, beside


class Seq2Seq(nn.Module):
    """Source and target ids to logits. `core` is nn.LSTM or nn.GRU; `context` makes one for a width."""

    def __init__(
        self,
        config: Seq2SeqConfig,
        core: type[nn.LSTM | nn.GRU],
        context: Context,
        feeding: type[Apart | InputFeeding | ContextFirst] = Apart,
    ) -> None:
        super().__init__()
        self.config, self.feeding = config, feeding()
        embed, width, layers = config.embedding_size, config.hidden_size, config.num_hidden_layers
        between = config.dropout if layers > 1 else 0.0
        directions = 2 if config.bidirectional else 1
        attention = context(width)  # first, so that a seed draws the same weights as it always has
        self.source = nn.Embedding(config.vocab_size, embed)
        self.target = nn.Embedding(config.vocab_size, embed)
        self.encoder = RecurrentLayers(
            core(embed, width // directions, layers, bidirectional=config.bidirectional, dropout=between)
        )
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(2 if core is nn.LSTM else 1))
        self.decoder = RecurrentLayers(core(embed + feeding.width(config), width, layers, dropout=between))
        self.context = attention
        self.join = nn.Linear(2 * width, embed)
        self.output = nn.Linear(embed, config.vocab_size)
        self.dropout = nn.Dropout(config.dropout)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=0.1)
        self.output.weight = self.target.weight  # what a word means and when to write it are the same vector

    def forward(self, batch: Any) -> Tensor:
        """Give logits (N, V) for `batch.ids`, each word from `batch.source` and the words before it.

        Both sides are packed (`ids`, `layout`), the target ends with the end token and does not begin with a start.
        """
        states, memory = self.read(batch.source.ids, batch.source.layout)
        layout: Packed = batch.layout
        before = batch.ids.roll(1).masked_fill(layout.positions == 0, self.config.bos_token_id)
        return self._words(self.feeding.run(self, self.dropout(self.target(before)), layout, states, memory))

    def read(self, ids: Tensor, layout: Packed) -> tuple[States, Memory]:
        """Encode packed sources: the states the decoder starts from, and what it attends to."""
        hidden, states = self.encoder(self.dropout(self.source(ids)), layout)
        if self.config.bidirectional:
            states = joined_directions(states)
        memory = self.context.memory(hidden, layout, states[0][-1])
        return tuple(bridge(state).tanh() for bridge, state in zip(self.bridge, states, strict=True)), memory

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, DecodingState]:
        """Read the sources and feed the start token: logits (B, V) of the first word, and the state."""
        ids, layout = pack_ids(prompts, "source", self.output.weight.device)
        states, memory = self.read(ids, layout)
        start = DecodingState(states, self.feeding.begin(self, memory))
        return self.step(ids.new_full((len(prompts),), self.config.bos_token_id), start)

    def step(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        """Write one word (B,) to each target: logits (B, V) of the next, and the new state."""
        joined, *after = self.feeding.step(self, self.dropout(self.target(tokens)), state.states, state.memory)
        return self._words(joined), DecodingState(*after)

    def attention(self, batch: Any) -> list[Tensor]:
        """The attention of each word of the target to each word of the source: one (T, S) for each pair.

        A row sums to 1. A model with one context for all words has no attention.
        """
        if not isinstance(self.context, AttentionContext):
            raise BadInput("this model has no attention to look at; choose one such as seq2seq-lstm-additive")
        with torch.no_grad(), evaluating(self), record(self.context.align) as calls:
            self(batch)
        lengths = zip(batch.layout.lengths, batch.source.layout.lengths, strict=True)
        matrices = torch.cat([call.output for call in calls], 1)  # a call for each word, or one for all
        return [weights[:t, :s] for weights, (t, s) in zip(matrices, lengths, strict=True)]

    def joined(self, written: Tensor, context: Tensor) -> Tensor:
        """What the next word is chosen by: states and contexts (…, D) -> (…, E)."""
        return torch.tanh(self.join(torch.cat((context, written), -1)))

    def _words(self, joined: Tensor) -> Tensor:
        return self.output(self.dropout(joined))


_CORES: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
_CONTEXTS: dict[str, Context] = {
    "": lambda width: FixedContext(),
    "-dot": lambda width: AttentionContext(DotScore()),
    "-general": lambda width: AttentionContext(GeneralScore(width)),
    "-additive": lambda width: AttentionContext(AdditiveScore(width)),
}

_FEEDING: dict[str, tuple[str, type[InputFeeding | ContextFirst]]] = {
    "-dot-luong": ("-dot", InputFeeding),
    "-general-luong": ("-general", InputFeeding),
    "-additive-bahdanau": ("-additive", ContextFirst),
}

# by the `model_type` of our own config.json: seq2seq-lstm, seq2seq-lstm-dot, … seq2seq-gru-additive-bahdanau
BUILD: dict[str, Callable[[Seq2SeqConfig], Seq2Seq]] = {
    f"seq2seq-{cell}{name}": partial(Seq2Seq, core=core, context=context, feeding=feeding)
    for cell, core in _CORES.items()
    for name, (context, feeding) in (
        {name: (context, Apart) for name, context in _CONTEXTS.items()}
        | {name: (_CONTEXTS[score], feeding) for name, (score, feeding) in _FEEDING.items()}
    ).items()
}
