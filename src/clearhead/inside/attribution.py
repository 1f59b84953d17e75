"""Attribution: how much each token mattered for one answer, by five methods."""

# n sequences · T tokens · E embedding width · D width · C choices
# n sequences · T tokens · D width · L labels · V vocabulary
# n steps · T tokens · H heads · E embedding width

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, InputTooLong, WrongTask, require
from clearhead.inside.trace import Layer, trace_ids
from clearhead.nn.heads import LastTokenHead, Network, TransformedPooler
from clearhead.nn.hooks import evaluating
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import check_head
from clearhead.text import Encoding

_BATCH_TOKENS = 8192

# hidden states (n·T, D) and their layout -> one table (n, C) for each choice that makes the answer
Reader = Callable[[Tensor, Packed], Sequence[Tensor]]


@dataclass(frozen=True)
class Target:
    """One answer: in each table that `read` gives, the column that was picked.

    Its logit is the sum over the tables (a span has two: start and end), its probability the product.
    """

    network: Network
    read: Reader = field(repr=False)
    picks: tuple[int, ...]
    use: str
    answer: str
    ids: Tensor  # (T,)
    segments: Tensor  # (T,)
    tokens: list[str]
    looks_from: list[int]  # where the head reads
    hidable: list[int]  # tokens of the text; the special ones are always there
    blank: int  # what stands for a hidden token

    def scores(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logit and probability of the answer for each row of ids (n, T): (n,) and (n,)."""
        logits, shares = [], []
        size = max(1, _BATCH_TOKENS // ids.shape[1])
        with torch.no_grad(), evaluating(self.network):
            for part in ids.split(size):
                tables = self._tables(part)
                logits.append(self._sum(tables))
                shares.append(torch.stack([t.softmax(-1)[:, i] for t, i in self._picked(tables)]).prod(0))
        return torch.cat(logits).cpu(), torch.cat(shares).cpu()

    def gradient(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (n,) for token vectors (n, T, E) in the place of the tokens' own, and their gradient (n, T, E)."""
        logits, gradients = [], []
        size = max(1, _BATCH_TOKENS // vectors.shape[1])
        with torch.enable_grad(), evaluating(self.network):
            for part in vectors.detach().split(size):
                given = part.requires_grad_()
                with _replaced(self.network.encoder.embeddings.token, given.flatten(0, 1)):
                    logit = self._sum(self._tables(self.ids.expand(len(given), -1)))
                gradients.append(torch.autograd.grad(logit.sum(), given)[0])
                logits.append(logit.detach())
        return torch.cat(logits), torch.cat(gradients)

    def vectors(self, ids: Tensor) -> Tensor:
        """The token embeddings of ids (T,): (T, E)."""
        with torch.no_grad():
            found: Tensor = self.network.encoder.embeddings.token(ids)
        return found

    def hidden(self, positions: Sequence[int]) -> Tensor:
        """The ids with the tokens at these positions hidden: (T,)."""
        ids = self.ids.clone()
        ids[list(positions)] = self.blank
        return ids

    def _tables(self, ids: Tensor) -> Sequence[Tensor]:
        n, length = ids.shape
        layout = Packed.of([length] * n, ids.device)
        states = self.network.encoder(ids.flatten(), layout, self.segments.repeat(n))
        return [table.float() for table in self.read(states, layout)]

    def _picked(self, tables: Sequence[Tensor]) -> Iterator[tuple[Tensor, int]]:
        return zip(tables, self.picks, strict=True)

    def _sum(self, tables: Sequence[Tensor]) -> Tensor:
        return torch.stack([table[:, pick] for table, pick in self._picked(tables)]).sum(0)


@contextmanager
def _replaced(module: nn.Module, output: Tensor) -> Iterator[None]:
    """Let a module give this output, whatever it is asked."""
    handle = module.register_forward_hook(lambda *_: output)
    try:
        yield
    finally:
        handle.remove()


Use = Literal["classify", "answer", "fill"]


def class_target(model: Model, text: str, pair: str | None = None, label: str | None = None) -> Target:
    """The class of a text or a pair: the best one, or the one named."""
    check_head(model.network, "classes")
    head = model.network.heads["classes"]
    encoding = _encoded(model, text, pair)
    batch = Batch.of([encoding.ids], [encoding.segments]).to(model.device)
    with torch.inference_mode():
        scores = model.network("classes", batch.ids, batch.layout, batch.segments)[0]
    problem = model.checkpoint.description.problem
    require(len(scores) > 1 and problem != "regression", "this model gives a number, not a class", WrongTask)
    names = model.labels or tuple(f"LABEL_{i}" for i in range(len(scores)))
    require(label is None or label in names, f"label {label!r} is not known; choose {', '.join(names)}", BadInput)
    pick = int(scores.argmax()) if label is None else names.index(label)

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        logits = head(hidden, layout)  # (n, L)
        if problem != "multi_label_classification":
            return [logits]
        # each label against its absence: the softmax of (0, x) is the sigmoid of x
        return [torch.stack([torch.zeros_like(logits[:, pick]), logits[:, pick]], -1)]

    column = 1 if problem == "multi_label_classification" else pick
    return _target(model, encoding, read, (column,), "classify", names[pick], _read_by(head, len(encoding)))


def token_target(model: Model, text: str, token: str | None = None) -> Target:
    """The token behind the first mask of a text: the best one, or the one named."""
    check_head(model.network, "masked_lm")
    best = model.fill(text, top=1, candidates=None if token is None else [token]).predictions[0]
    encoding = _encoded(model, text, None)
    place = encoding.ids.index(model.tokenizer.mask_id)
    head = model.network.heads["masked_lm"]

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        return [head(hidden, layout, where=layout.offsets[:-1].long() + place)]  # (n, V)

    return _target(model, encoding, read, (best.id,), "fill", best.token, [place])


def span_target(model: Model, question: str, context: str, answer: str | None = None) -> Target:
    """The span of an answer: the best one, or the first place where these words stand in the context."""
    check_head(model.network, "span")
    encoding = _encoded(model, question, context)
    if answer is None:
        found = model.answer(question, context, threshold=math.inf)
        require(found.text is not None, "the context is empty; give some words", BadInput)
        start, end = found.start, found.end
    else:
        start = context.find(answer)
        require(bool(answer) and start >= 0, f"{answer!r} does not stand in the context", BadInput)
        end = start + len(answer)
    pieces = encoding.pieces_of_span(start, end, part=1)
    require(len(pieces) > 0, f"the answer {context[start:end]!r} has no pieces", BadInput)
    head = model.network.heads["span"]

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        logits = head(hidden, layout).unflatten(0, (layout.batch, -1))  # (n, T, 2)
        return [logits[..., 0], logits[..., 1]]

    picks = (pieces[0], pieces[-1])
    return _target(model, encoding, read, picks, "answer", context[start:end], sorted(set(picks)))


def _target(
    model: Model,
    encoding: Encoding,
    read: Reader,
    picks: tuple[int, ...],
    use: Use,
    answer: str,
    looks_from: list[int],
) -> Target:
    special = model.tokenizer.special
    blank = model.tokenizer.mask_id if "mask" in special else model.tokenizer.unk_id
    return Target(
        network=model.network,
        read=read,
        picks=picks,
        use=use,
        answer=answer,
        ids=torch.tensor(encoding.ids, device=model.device),
        segments=torch.tensor(encoding.segments, device=model.device),
        tokens=encoding.tokens,
        looks_from=looks_from,
        hidable=[i for i, special in enumerate(encoding.special) if not special and encoding.ids[i] != blank],
        blank=blank,
    )


def _read_by(head: nn.Module, length: int) -> list[int]:
    """Where a head for classes reads: at the first token, at the last, or everywhere."""
    pooler = getattr(head, "pooler", None)
    if isinstance(pooler, TransformedPooler) and pooler.pool.pooling == "mean":
        return list(range(length))
    return [length - 1] if isinstance(head, LastTokenHead) else [0]


def _encoded(model: Model, text: str, pair: str | None) -> Encoding:
    encoding = model.tokenizer.encode(text, pair)
    limit = model.encoder.max_length
    require(
        len(encoding) <= limit,
        f"the input has {len(encoding)} tokens and the model {limit} positions; an answer is explained within one "
        "window, so give the part that matters",
        InputTooLong,
    )
    require(any(map(len, encoding.parts)), "the text is empty; give some words", BadInput)
    return encoding


STEPS = 32  # of the integral; more would change the fourth digit


def attention(target: Target) -> Tensor:
    """The last layer's weights, from where the head reads, mean over heads: (T,)."""
    return _mean_weights(_layers(target)[-1])[target.looks_from].mean(0)


def rollout(target: Target) -> Tensor:
    """Abnar & Zuidema 2020: weights and residuals multiplied through all layers, from where the head reads: (T,)."""
    return rolled_out(_layers(target))[target.looks_from].mean(0)


def gradient_times_input(target: Target) -> Tensor:
    """The slope of the logit along each token's own vector: (T,)."""
    vectors = target.vectors(target.ids)
    _, gradient = target.gradient(vectors[None])
    return (gradient[0] * vectors).sum(-1).float().cpu()


def integrated_gradients(target: Target) -> Tensor:
    """Sundararajan et al. 2017: the slope, gathered on the way from hidden tokens to the real ones: (T,).

    The numbers add up to what the logit gains on that way.
    """
    start, end = target.vectors(target.hidden(target.hidable)), target.vectors(target.ids)
    # the middle of each step: the error falls with the square of their number
    shares = (torch.arange(STEPS, device=end.device, dtype=end.dtype) + 0.5) / STEPS
    _, gradient = target.gradient(start + shares[:, None, None] * (end - start))
    return ((end - start) * gradient.mean(0)).sum(-1).float().cpu()


def leave_one_out(target: Target) -> Tensor:
    """What the logit loses when one token is hidden: (T,), 0 for special tokens."""
    rows = [target.hidden([]), *(target.hidden([position]) for position in target.hidable)]
    logits, _ = target.scores(torch.stack(rows))
    found = torch.zeros(len(target.ids))
    found[target.hidable] = logits[0] - logits[1:]
    return found


METHODS: dict[str, Callable[[Target], Tensor]] = {
    "attention": attention,
    "attention rollout": rollout,
    "gradient × input": gradient_times_input,
    "integrated gradients": integrated_gradients,
    "leave one out": leave_one_out,
}


def rolled_out(layers: list[Layer]) -> Tensor:
    """From which input token each output token can have come, (T, T); rows sum to 1."""
    size = layers[0].q.shape[-2]
    flow = torch.eye(size)
    for layer in layers:
        # half of a token's vector comes past the attention, by the residual connection
        flow = (_mean_weights(layer) + torch.eye(size)) / 2 @ flow
    return flow


def _layers(target: Target) -> list[Layer]:
    return trace_ids(target.network.encoder, target.ids, target.segments).layers


def _mean_weights(layer: Layer) -> Tensor:
    return torch.stack([layer.attention(head) for head in range(layer.heads)]).mean(0)
