"""Every number of one forward pass, by layer and head: `trace(model, text).layers[3].weights`."""

# T tokens · D width

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, WrongTask, require
from clearhead.hub.written import tokenizer_as_read
from clearhead.inside.heads import heads_page
from clearhead.inside.layer import Layer, read_layers, watched
from clearhead.inside.step import step_view
from clearhead.inside.view import View
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.embeddings import inner_of
from clearhead.nn.layout import Packed
from clearhead.nn.network import Encoder
from clearhead.nn.record import evaluating, record
from clearhead.nn.relative import RelativeBias
from clearhead.nn.two_stream import RelativeAttention
from clearhead.text import Encoding, Tokenizer


class Traceable(Protocol):
    """Whatever has an encoder and its tokenizer, such as `clearhead.load()`."""

    @property
    def encoder(self) -> Encoder:
        """Ids to hidden states."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to ids."""


class Link(NamedTuple):
    """How much one head lets a token look at another."""

    layer: int
    head: int
    weight: float


@dataclass(frozen=True, repr=False)
class Trace:
    """One text on its way through the model: embeddings (T, D), then the layers, then the output (T, D).

    All tensors are float32 on the CPU and belong to the trace: training the model further does not change them.
    """

    ids: list[int]
    tokens: list[str]
    segments: list[int]  # as the model sees them
    sides: list[int]  # 0 for tokens of the text, 1 for those of its pair: RoBERTa has pairs but no segments
    embeddings: Tensor
    layers: list[Layer]
    output: Tensor

    def attention(self, layer: int, head: int) -> Tensor:
        """One head's weights: (T, T), row = the token that looks, column = the token that is looked at."""
        return self._layer(layer).attention(head)

    def heads(self, layer: int = 0, head: int | None = 0) -> View:
        """Show the weights of all layers and heads as one page.

        It opens at this layer and head; None is the average of the layer's heads.
        """
        start = self._layer(layer)
        if head is not None:
            start.check_head(head)
        facts = {"tokens": self.tokens, "segments": self.sides, "layers": len(self.layers), "heads": start.heads}
        return View("attention", heads_page(self.tokens, self.sides, self.layers, (layer, head)), facts)

    def step(self, token: int | str, layer: int, head: int) -> View:
        """Show one head's numbers as a page: query, keys, values, scores, weights; it opens at this token."""
        return step_view(self.tokens, self._layer(layer), head, self.position(token))

    def links(self, source: int | str, target: int | str) -> list[Link]:
        """Every head with the weight by which source looks at target, the strongest first."""
        row, column = self.position(source), self.position(target)
        found = [
            Link(layer.index, head, float(layer.attention(head)[row, column]))
            for layer in self.layers
            for head in range(layer.heads)
        ]
        return sorted(found, key=lambda link: -link.weight)

    def position(self, token: int | str) -> int:
        """Where a token stands: a number is one already, a word must be there once."""
        if isinstance(token, int):
            last = len(self.tokens) - 1
            require(0 <= token <= last, f"token {token} does not exist, the text has tokens 0 to {last}", BadInput)
            return token
        wanted = token.casefold()
        places = [i for i, name in enumerate(self.tokens) if name.lstrip("Ġ▁").removeprefix("##").casefold() == wanted]
        where = f"stands at {', '.join(map(str, places))}; give the number of one" if places else "is not there"
        require(len(places) == 1, f"the token {token!r} {where} (tokens: {' '.join(self.tokens[:40])})", BadInput)
        return places[0]

    def _layer(self, index: int) -> Layer:
        last = len(self.layers) - 1
        require(0 <= index <= last, f"layer {index} does not exist, the model has layers 0 to {last}", BadInput)
        return self.layers[index]

    def __repr__(self) -> str:
        shown = " ".join(self.tokens[:8]) + (" …" if len(self.tokens) > 8 else "")
        heads = f" × {self.layers[0].heads} heads" if self.layers else ""
        return f"Trace({len(self.tokens)} tokens, {len(self.layers)} layers{heads}: {shown})"


def trace(model: Traceable, text: str, pair: str | None = None) -> Trace:
    """Run the model once over a text, or a pair of texts, and keep every number on the way.

    Of an encoder–decoder, the encoder's side: the text is its source.
    """
    encoding = encoded(model, text, pair)
    second = encoding.parts[1].start if pair is not None else len(encoding.ids)
    sides = [int(position >= second) for position in range(len(encoding.ids))]
    return trace_ids(model.encoder, encoding.ids, encoding.segments, encoding.tokens, sides)


def encoded(model: Traceable, text: str, pair: str | None = None) -> Encoding:
    """Cut a text as the model reads it: a source is read without the tokens that a tokenizer puts before texts."""
    if not isinstance(model.encoder, EncoderDecoder):
        return model.tokenizer.encode(text, pair)
    return tokenizer_as_read(model.tokenizer, model.encoder.config, sourced=True).encode(text, pair)


def trace_ids(
    encoder: Encoder,
    ids: Sequence[int] | Tensor,
    segments: Sequence[int] | Tensor | None = None,
    tokens: Sequence[str] | None = None,
    sides: Sequence[int] | None = None,
) -> Trace:
    """Trace without a tokenizer: ids and segments (T,); tokens, if not given, are the ids in writing."""
    row = torch.as_tensor(ids)
    require(row.dim() == 1 and len(row) > 0, f"ids must be one sequence (T,), got shape {tuple(row.shape)}", BadInput)
    kinds = torch.zeros_like(row) if segments is None else torch.as_tensor(segments)
    names = [str(i) for i in row.tolist()] if tokens is None else list(tokens)
    # of a model that is told capitals, segments do not say which text a token is from
    unknown = getattr(inner_of(encoder.embeddings), "capital", None) is not None
    belongs = ([0] * len(row) if unknown else kinds.tolist()) if sides is None else list(sides)
    require(
        kinds.shape == row.shape and len(names) == len(belongs) == len(row),
        f"{len(row)} ids need as many segments, tokens and sides, got {kinds.numel()}, {len(names)} and {len(belongs)}",
        BadInput,
    )
    network = cast(nn.Module, encoder)  # every encoder is one
    sourced = isinstance(encoder, EncoderDecoder)
    _refuse_distances(network, sourced=sourced)
    device = next(network.parameters()).device
    layout = Packed.of([len(row)], device)
    blocks = cast(nn.ModuleList, network.get_submodule("encoder_blocks" if sourced else "blocks"))
    # the packed layout is the fast path: the trace shows the numbers that really are used
    with torch.no_grad(), evaluating(network), record(encoder.embeddings, *watched(blocks)) as calls:
        if isinstance(encoder, EncoderDecoder):
            output = encoder.encode(row.to(device), layout).hidden
        else:
            output = encoder(row.to(device), layout, None if segments is None else kinds.to(device))
    return Trace(
        ids=row.tolist(),
        tokens=names,
        segments=kinds.tolist(),
        sides=belongs,
        embeddings=calls[0].output.float().cpu(),
        layers=read_layers(blocks, calls[1:]),
        output=output.float().cpu(),
    )


def _refuse_distances(encoder: nn.Module, *, sourced: bool) -> None:
    biased = any(isinstance(part, RelativeAttention | RelativeBias) for part in encoder.modules())
    require(
        not biased,
        f"{type(encoder).__name__} adds distances to its scores, which a trace does not show yet; choose another model"
        + (", or see how it writes: look decoding" if sourced else ""),
        WrongTask,
    )
