"""Every number of one forward pass, by layer and head: `trace(model, text).layers[3].weights`."""

# T tokens · D width · H heads · K head width

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, keywords, require
from clearhead.hub.checkpoint import export_tokenizer
from clearhead.inside.attention_view import Telling, heads_view, telling_head
from clearhead.inside.by_hand import step_view
from clearhead.inside.page import LIMIT, View, check_length
from clearhead.nn.attention import causal_mask, scaled_scores, window_mask
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.embeddings import inner_of
from clearhead.nn.hooks import Call, evaluating, record
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.text import Encoding


@dataclass(frozen=True, repr=False)
class Layer:
    """What one layer did to T tokens. Scores and weights (H, T, T) are derived when asked for.

    before -> attention_sum = before + attention_output -> middle -> feedforward_sum = middle + feedforward_output
    -> hidden. A post-norm block normalises both sums; in a pre-norm block `middle` and `hidden` are the sums.
    """

    index: int
    before: Tensor  # (T, D), the hidden states that entered
    q: Tensor  # (H, T, K), rotated where positions are rotary
    k: Tensor  # (H, T, K)
    v: Tensor  # (H, T, K)
    window: int | None  # how far a token attends to either side
    head_output: Tensor  # (H, T, K), weights · v
    output_matrix: Tensor  # (D, H·K), W^O
    attention_input: (
        Tensor  # (T, D), what queries, keys and values are made of: `before`, normalised where it is pre-norm
    )
    attention_output: Tensor  # (T, D), all heads side by side times W^O, plus the bias
    attention_sum: Tensor  # (T, D)
    middle: Tensor  # (T, D)
    feedforward_output: Tensor  # (T, D)
    feedforward_sum: Tensor  # (T, D)
    hidden: Tensor  # (T, D), the hidden states that leave
    rotary: bool = False  # whether q and k were rotated by their positions
    causal: bool = False  # whether a token sees only itself and what is before it
    bias: Tensor | None = None  # (H, T, T), what is added to the scores for distances and segments

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.q.shape[0]

    @property
    def raw_scores(self) -> Tensor:
        """Q · Kᵀ: (H, T, T)."""
        return self.q @ self.k.mT

    @property
    def scores(self) -> Tensor:
        """Q · Kᵀ / √K, plus what is added for distances, where the model has it: (H, T, T)."""
        return self._scores(slice(None))

    @cached_property
    def weights(self) -> Tensor:
        """Softmax of the scores over the tokens that may be attended: (H, T, T), each row sums to 1."""
        return self._softmax(slice(None))

    def attention(self, head: int) -> Tensor:
        """One head's weights, (T, T), without computing and keeping those of the others."""
        self.check_head(head)
        return self._softmax(head)

    def _scores(self, heads: int | slice) -> Tensor:
        scores = scaled_scores(self.q[heads], self.k[heads])
        return scores if self.bias is None else scores + self.bias[heads]

    def _softmax(self, heads: int | slice) -> Tensor:
        scores = self._scores(heads)
        length = scores.shape[-1]
        if self.causal:
            scores = scores.masked_fill(~causal_mask(length, scores.device), -torch.inf)
        if self.window is not None:
            scores = scores.masked_fill(~window_mask(length, self.window, scores.device), -torch.inf)
        return scores.softmax(-1)

    def contribution(self, head: int) -> Tensor:
        """What one head adds to the residual stream: (T, D). All heads and the bias make `attention_output`."""
        self.check_head(head)
        width = self.v.shape[-1]
        return self.head_output[head] @ self.output_matrix[:, head * width : (head + 1) * width].mT

    def check_head(self, head: int) -> None:
        """Refuse a head that is not there."""
        _check_index("head", head, self.heads, f"layer {self.index}")

    def __repr__(self) -> str:
        tokens, width = self.hidden.shape
        reach = "" if self.window is None else f", window {self.window}"
        return f"Layer({self.index}: {tokens} tokens × {width}, {self.heads} heads × {self.q.shape[-1]}{reach})"


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
    texts: tuple[str, ...] = ()  # what was read, if it was text
    spans: tuple[tuple[int, int, int] | None, ...] = ()  # of each token: which text, and its characters there
    mask: str | None = None  # what stands for a hidden word

    def attention(self, layer: int, head: int) -> Tensor:
        """One head's weights: (T, T), row = the token that looks, column = the token that is looked at."""
        return self._layer(layer).attention(head)

    def heads(self, layer: int | None = None, head: int | Literal["telling"] | None = "telling") -> View:
        """Show the weights of all layers and heads as one page.

        It opens at this layer and head; None is the average of the layer's heads. What is left open is chosen: the
        head that tells most about the words, and the page says why.
        """
        layers = range(len(self.layers)) if layer is None else [self._layer(layer).index]
        chosen = None if head == "telling" else head
        for one in layers:
            self._layer(one).check_head(chosen or 0)
        if head is None or (chosen is not None and layer is not None):
            return heads_view(self, layers[0], chosen)
        found = telling_head(self, layers, chosen)
        return heads_view(self, found.layer, found.head, found)

    def step(self, token: int | str | None = None, layer: int | None = None, head: int | None = None) -> View:
        """Show one head's numbers as a page: query, keys, values, scores, weights; it opens at this token.

        What is left open is chosen as for `heads`: the head that tells most, and the token that looks there.
        """
        layers = range(len(self.layers)) if layer is None else [self._layer(layer).index]
        for one in layers:
            self._layer(one).check_head(head or 0)
        said = layer is not None and head is not None and token is not None
        told = Telling(layer or 0, head or 0) if said else telling_head(self, layers, head)
        place = self.position(token if token is not None else told.token or 0)
        return step_view(self, self._layer(told.layer), told.head, place)

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
            _check_index("token", token, len(self.tokens), "the text")
            return token
        wanted = token.casefold()
        places = [i for i, name in enumerate(self.tokens) if name.lstrip("Ġ▁").removeprefix("##").casefold() == wanted]
        where = (
            f"stands at {', '.join(map(str, places))}, counted from 0; give the number of one"
            if places
            else "is not there"
        )
        require(len(places) == 1, f"the token {token!r} {where} (tokens: {' '.join(self.tokens[:40])})", BadInput)
        return places[0]

    def _layer(self, index: int) -> Layer:
        _check_index("layer", index, len(self.layers), "the model")
        return self.layers[index]

    def __repr__(self) -> str:
        shown = " ".join(self.tokens[:8]) + (" …" if len(self.tokens) > 8 else "")
        heads = f" × {self.layers[0].heads} heads" if self.layers else ""
        return f"Trace({len(self.tokens)} tokens, {len(self.layers)} layers{heads}: {shown})"


def _check_index(name: str, index: int, count: int, owner: str) -> None:
    require(0 <= index < count, f"{name} {index} does not exist, {owner} has {name}s 0 to {count - 1}", BadInput)


@keywords
def trace(model: Model, text: str, pair: str | None = None) -> Trace:
    """Run the model once over a text, or a pair of texts, and keep every number on the way.

    Of an encoder–decoder, the encoder's side: the text is its source.

    >>> import clearhead
    >>> clearhead.trace(clearhead.load(), "Be alert!")
    Trace(5 tokens, 12 layers × 6 heads: [CLS] be alert ! [SEP])
    """
    return _trace_of(model, encoded(model, text, pair), text, pair)


def trace_of_short(model: Model, text: str, pair: str | None = None, *, most: int = LIMIT) -> Trace:
    """Trace for a picture of at most so many tokens; more are refused before they are read, which takes its time."""
    encoding = encoded(model, text, pair)
    check_length(len(encoding), most)
    return _trace_of(model, encoding, text, pair)


def _trace_of(model: Model, encoding: Encoding, text: str, pair: str | None) -> Trace:
    sides = sides_of(encoding, pair is not None)
    found = trace_ids(model.encoder, encoding.ids, encoding.segments, encoding.tokens, sides)
    texts = (text,) if pair is None else (text, pair)
    return replace(found, texts=texts, spans=_spans(encoding), mask=getattr(model.tokenizer, "special", {}).get("mask"))


def _spans(encoding: Encoding) -> tuple[tuple[int, int, int] | None, ...]:
    found = []
    for place, span in enumerate(getattr(encoding, "offsets", ())):
        part = encoding.part_of(place)
        found.append(None if span is None or part is None else (part, *span))
    return tuple(found)


def sides_of(encoding: Encoding, paired: bool) -> list[int]:
    """Which of the two texts each token is of: 0 up to the end of the first, 1 from the second on."""
    second = encoding.parts[1].start if paired else len(encoding.ids)
    return [int(position >= second) for position in range(len(encoding.ids))]


def encoded(model: Model, text: str, pair: str | None = None) -> Encoding:
    """Cut a text as the model reads it: a source is read without the tokens that a tokenizer puts before texts."""
    if not isinstance(model.encoder, EncoderDecoder):
        return model.tokenizer.encode(text, pair)
    return export_tokenizer(model.tokenizer, model.encoder).encode(text, pair)


def trace_ids(
    encoder: Any,
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
    if sides is None:
        # of a model that is told capitals, segments do not say which text a token is from
        unknown = getattr(inner_of(encoder.embeddings), "capital", None) is not None
        sides = [0] * len(row) if unknown else kinds.tolist()
    given = f"{kinds.numel()}, {len(names)} and {len(sides)}"
    fits = kinds.shape == row.shape and len(names) == len(sides) == len(row)
    require(fits, f"{len(row)} ids need as many segments, tokens and sides, got {given}", BadInput)
    sourced = isinstance(encoder, EncoderDecoder)
    device = next(encoder.parameters()).device
    layout = Packed.of([len(row)], device)
    blocks = encoder.encoder_blocks if sourced else encoder.blocks
    parts = {block.get_submodule(name): name for block in blocks for name in PARTS}
    # the packed layout is the fast path: the trace shows the numbers that really are used
    with torch.no_grad(), evaluating(encoder), record(encoder.embeddings, *blocks, *parts) as calls:
        if sourced:
            output = encoder.encode(row.to(device), layout).hidden
        else:
            output = encoder(row.to(device), layout, None if segments is None else kinds.to(device))
    return Trace(
        ids=row.tolist(),
        tokens=names,
        segments=kinds.tolist(),
        sides=list(sides),
        embeddings=calls[0].output.float().cpu(),
        layers=_layers(calls[1:], parts),
        output=output.float().cpu(),
    )


# the parts of a block that are recorded beside the block itself
PARTS = ("attention.attend", "attention", "norm_1", "feedforward", "norm_2")


def _layers(calls: Sequence[Call], names: dict[nn.Module, str]) -> list[Layer]:
    """Sort the calls of blocks and of their named parts into layers: a block returns after all of its parts."""
    layers: list[Layer] = []
    parts: dict[str, Call] = {}
    for call in calls:
        if call.module in names:
            parts[names[call.module]] = call
        else:
            layers.append(_layer(len(layers), parts, call))
    return layers


def _layer(index: int, parts: dict[str, Call], block: Call) -> Layer:
    attend, norm_1, norm_2 = parts["attention.attend"], parts["norm_1"], parts["norm_2"]
    q, k, v = (heads_first(x) for x in attend.inputs[:3])
    bias = attend.inputs[5] if len(attend.inputs) > 5 else None
    # a pre-norm block normalises the very tensor that enters it, a post-norm block the sum
    pre_norm = norm_1.inputs[0] is block.inputs[0]
    attention_sum = norm_2.inputs[0] if pre_norm else norm_1.inputs[0]
    return Layer(
        index=index,
        before=_plain(block.inputs[0]),
        q=q,
        k=k,
        v=v,
        window=getattr(attend.module, "window", None),
        head_output=heads_first(attend.output),
        output_matrix=_matrix(block.module.get_submodule("attention.output")),
        attention_input=_plain(parts["attention"].inputs[0]),
        attention_output=_plain(parts["attention"].output),
        attention_sum=_plain(attention_sum),
        middle=_plain(attention_sum if pre_norm else norm_1.output),
        feedforward_output=_plain(parts["feedforward"].output),
        feedforward_sum=_plain(block.output if pre_norm else norm_2.inputs[0]),
        hidden=_plain(block.output),
        rotary=getattr(block.module.get_submodule("attention"), "rotary", None) is not None,
        causal=getattr(attend.module, "causal", False),
        bias=None if bias is None else _plain(bias).reshape(-1, *bias.shape[-2:]),
    )


def _plain(x: Tensor) -> Tensor:
    return x.detach().float().cpu()


def heads_first(x: Any) -> Tensor:
    """(T, H, K) -> (H, T, K), float32 on the CPU; what lays texts out in rectangles has (1, T, H, K)."""
    return _plain(x).flatten(0, -3).transpose(0, 1)


def _matrix(linear: Any) -> Tensor:
    """Copy W^O, (D, H·K), with its adapter if it has one, so that later training leaves the trace alone."""
    return _plain(linear.weight).clone()
