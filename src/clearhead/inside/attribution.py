"""Attribution: how much each token mattered for one answer, by five methods.

An answer (a class, the token behind a mask, a span, whether a text follows) is a `Target`; a method gives it one score
for each token.
"""

# n sequences or steps · T tokens · H heads · E embedding width · D width · C choices · V vocabulary

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import get_ident
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, InputTooLong, WrongTask, require
from clearhead.inside.trace import Layer, trace_ids
from clearhead.nn.heads import LastTokenHead, TransformedPooler
from clearhead.nn.hooks import evaluating
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import check_head
from clearhead.text import Encoding

STEPS = 32  # of the integral; more would change the fourth digit
_BATCH_TOKENS = 8192

Use = Literal["classify", "answer", "fill", "follows"]
# hidden states (n·T, D) and their layout -> one table (n, C) for each choice that makes the answer
Reader = Callable[[Tensor, Packed], Sequence[Tensor]]


@dataclass(frozen=True)
class Target:
    """One answer: in each table that `read` gives, the column that was chosen.

    Its logit is the sum over the tables (a span has two: start and end), its probability the product.
    """

    model: Model = field(repr=False)
    encoding: Encoding = field(repr=False)
    read: Reader = field(repr=False)
    columns: tuple[int, ...]
    use: Use
    answer: str
    read_at: list[int]  # the positions at which the head reads
    stated: float | None = None  # the probability that the use itself gives it, where that is another
    # what was found of a row of ids: the methods hide the same tokens now and then, and begin and end alike
    _known: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def ids(self) -> Tensor:
        """The tokens: (T,)."""
        return torch.tensor(self.encoding.ids, device=self.model.device)

    @cached_property
    def baseline_id(self) -> int:
        """What stands for a masked token."""
        tokenizer = self.model.tokenizer
        return tokenizer.mask_id if "mask" in tokenizer.special else tokenizer.unk_id

    @cached_property
    def maskable(self) -> list[int]:
        """The positions of the text's tokens; the special ones are never masked."""
        ids = zip(self.encoding.ids, self.encoding.special, strict=True)
        return [position for position, (i, special) in enumerate(ids) if not special and i != self.baseline_id]

    def masked(self, positions: Sequence[int]) -> Tensor:
        """The ids with the tokens at these positions masked: (T,)."""
        ids = self.ids.clone()
        ids[list(positions)] = self.baseline_id
        return ids

    def scores(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logit and probability of the answer for each row of ids (n, T): (n,) and (n,)."""
        rows = [tuple(row) for row in ids.tolist()]
        new = [row for row in dict.fromkeys(rows) if row not in self._known]
        with torch.inference_mode(), evaluating(self.model.network):
            for start in range(0, len(new), self._batch):
                part = new[start : start + self._batch]
                tables = self._tables(torch.tensor(part, device=ids.device))
                logits = self._chosen(tables).sum(0)
                probabilities = self._chosen([table.softmax(-1) for table in tables]).prod(0)
                found = zip(logits.tolist(), probabilities.tolist(), strict=True)
                self._known.update(zip(part, found, strict=True))
        told = torch.tensor([self._known[row] for row in rows])
        return told[:, 0], told[:, 1]

    def vectors(self, ids: Tensor) -> Tensor:
        """The token embeddings of ids (T,): (T, E)."""
        with torch.no_grad():
            found: Tensor = self.model.encoder.embeddings.token(ids)
        return found

    def gradient(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (n,) for token vectors (n, T, E) in the place of the tokens' own, and their gradient (n, T, E)."""
        logits, gradients = [], []
        with torch.enable_grad(), evaluating(self.model.network):
            for part in vectors.detach().split(self._batch):
                given = part.requires_grad_()
                with _replaced(self.model.encoder.embeddings.token, given.flatten(0, 1)):
                    logit = self._chosen(self._tables(self.ids.expand(len(given), -1))).sum(0)
                gradients.append(torch.autograd.grad(logit.sum(), given)[0])
                logits.append(logit.detach())
        return torch.cat(logits), torch.cat(gradients)

    def layers(self) -> list[Layer]:
        """The trace of the tokens."""
        return trace_ids(self.model.encoder, self.ids, self.encoding.segments).layers

    @property
    def _batch(self) -> int:
        return max(1, _BATCH_TOKENS // len(self.ids))

    def _tables(self, ids: Tensor) -> Sequence[Tensor]:
        n, length = ids.shape
        layout = Packed.of([length] * n, ids.device)
        segments = torch.tensor(self.encoding.segments, device=ids.device).repeat(n)
        return [table.float() for table in self.read(self.model.encoder(ids.flatten(), layout, segments), layout)]

    def _chosen(self, tables: Sequence[Tensor]) -> Tensor:
        return torch.stack([table[:, column] for table, column in zip(tables, self.columns, strict=True)])


@contextmanager
def _replaced(module: nn.Module, output: Tensor) -> Iterator[None]:
    """Let a module give this output to this thread, whatever it is asked; others may read with it meanwhile."""
    asking = get_ident()
    handle = module.register_forward_hook(lambda *_: output if get_ident() == asking else None)
    try:
        yield
    finally:
        handle.remove()


def attention(target: Target) -> Tensor:
    """The last layer's weights, from where the head reads, mean over heads: (T,)."""
    return _mean_weights(target.layers()[-1])[target.read_at].mean(0)


def rollout(target: Target) -> Tensor:
    """Abnar & Zuidema 2020: weights and residuals multiplied through all layers, from where the head reads: (T,)."""
    return rolled_out(target.layers())[target.read_at].mean(0)


def rolled_out(layers: list[Layer]) -> Tensor:
    """From which input token each output token can have come, (T, T); rows sum to 1."""
    size = layers[0].q.shape[-2]
    flow = torch.eye(size)
    for layer in layers:
        # half of a token's vector comes past the attention, by the residual connection
        flow = (_mean_weights(layer) + torch.eye(size)) / 2 @ flow
    return flow


def _mean_weights(layer: Layer) -> Tensor:
    return torch.stack([layer.attention(head) for head in range(layer.heads)]).mean(0)


def gradient_times_input(target: Target) -> Tensor:
    """The slope of the logit along each token's own vector: (T,)."""
    vectors = target.vectors(target.ids)
    _, gradient = target.gradient(vectors[None])
    return (gradient[0] * vectors).sum(-1).float().cpu()


def integrated_gradients(target: Target) -> Tensor:
    """Sundararajan et al. 2017: the gradient, integrated on the way from masked tokens to the real ones: (T,).

    The numbers add up to what the logit gains on that way.
    """
    start, end = target.vectors(target.masked(target.maskable)), target.vectors(target.ids)
    # the middle of each step: the error falls with the square of their number
    along = (torch.arange(STEPS, device=end.device, dtype=end.dtype) + 0.5) / STEPS
    _, gradient = target.gradient(start + along[:, None, None] * (end - start))
    return ((end - start) * gradient.mean(0)).sum(-1).float().cpu()


def leave_one_out(target: Target) -> Tensor:
    """What the logit loses when one token is masked: (T,), 0 for special tokens."""
    rows = [target.ids, *(target.masked([position]) for position in target.maskable)]
    logits, _ = target.scores(torch.stack(rows))
    found = torch.zeros(len(target.ids))
    found[target.maskable] = logits[0] - logits[1:]
    return found


METHODS: dict[str, Callable[[Target], Tensor]] = {
    "attention": attention,
    "attention rollout": rollout,
    "gradient × input": gradient_times_input,
    "integrated gradients": integrated_gradients,
    "leave one out": leave_one_out,
}

_HEADS: dict[str, Use] = {"classes": "classify", "span": "answer", "masked_lm": "fill", "next_sentence": "follows"}


def target_of(model: Model, text: str, pair: str | None, *, use: Use | None, answer: str | None) -> Target:
    """The answer that is to be explained: the model's own, or the label, token or words of the context named."""
    if model.skills:
        # unasked, a text with a mask is filled and any other is classified
        use = use or ("fill" if model.tokenizer.special.get("mask", "[MASK]") in text else "classify")
        model = model.able("compare" if use == "classify" and pair is not None else use)
    # networks from before the Transformer have no heads
    able = [name for head, name in _HEADS.items() if head in getattr(model.network, "heads", ())]
    message = "this model has no answer to explain: it cannot classify, answer, fill or tell what follows"
    require(bool(able), f"{message}; how one writes is shown by: look decoding", WrongTask)
    several = getattr(model.network, "features", None) is not None
    require(not several, "this head reads several layers, of which attribution knows the last alone", WrongTask)
    # two texts have no mask to be filled
    chosen = use or ("follows" if pair is not None and able[0] == "fill" and "follows" in able else able[0])
    require(chosen in get_args(Use), f"use={chosen!r} is not known; choose {', '.join(get_args(Use))}", BadInput)
    if chosen == "classify":
        return class_target(model, text, pair, answer)
    if chosen == "answer":
        require(pair is not None, "an answer needs a context; give it as the second text", BadInput)
        return span_target(model, text, pair or "", answer)
    if chosen == "follows":
        require(pair is not None, "what follows is told of two texts; give the second", BadInput)
        return follows_target(model, text, pair or "", answer)
    require(pair is None, "a text with a mask is explained by itself; leave out the second text", BadInput)
    return token_target(model, text, answer)


def class_target(model: Model, text: str, pair: str | None = None, label: str | None = None) -> Target:
    """The class of a text or a pair: the best one, or the one named."""
    encoding = _encoded(model, "classes", text, pair)
    head = model.network.heads["classes"]
    ids, segments = (torch.tensor(row, device=model.device) for row in (encoding.ids, encoding.segments))
    with torch.no_grad(), evaluating(model.network):
        scores = model.network("classes", ids, Packed.of([len(ids)], model.device), segments)[0]
    problem = model.checkpoint.description.problem
    require(len(scores) > 1 and problem != "regression", "this model gives a number, not a class", WrongTask)
    names = model.labels or tuple(f"LABEL_{i}" for i in range(len(scores)))
    require(label is None or label in names, f"label {label!r} is not known; choose {', '.join(names)}", BadInput)
    best = int(scores.argmax()) if label is None else names.index(label)
    several = problem == "multi_label_classification"

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        logits = head(hidden, layout)  # (n, C)
        # of several labels each is set against its absence: the softmax of (0, x) is the sigmoid of x
        return [torch.stack([torch.zeros_like(logits[:, best]), logits[:, best]], -1) if several else logits]

    read_at = _positions_read(head, len(encoding))
    return Target(model, encoding, read, (1 if several else best,), "classify", names[best], read_at)


def _positions_read(head: nn.Module, length: int) -> list[int]:
    """Where a head for classes reads: at the first token, at the last, or everywhere."""
    pooler = getattr(head, "pooler", None)
    if isinstance(pooler, TransformedPooler) and pooler.pool.pooling == "mean":
        return list(range(length))
    last = isinstance(head, LastTokenHead) or getattr(pooler, "pooling", None) == "last"
    return [length - 1] if last else [0]


VERDICTS = ("it follows", "it does not")


def follows_target(model: Model, first: str, second: str, verdict: str | None = None) -> Target:
    """Whether the second text follows the first: as the model finds, or the verdict named."""
    encoding = _encoded(model, "next_sentence", first, second)
    known = verdict is None or verdict in VERDICTS
    require(known, f"target {verdict!r} is not known; choose {' or '.join(map(repr, VERDICTS))}", BadInput)
    head = model.network.heads["next_sentence"]
    found = verdict or VERDICTS[0 if model.follows(first, second).follows else 1]

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        return [head(hidden, layout)]  # (n, 2)

    column = VERDICTS.index(found)
    return Target(model, encoding, read, (column,), "follows", found, _positions_read(head, len(encoding)))


def token_target(model: Model, text: str, token: str | None = None) -> Target:
    """The token behind the first mask of a text: the best one, or the one named."""
    encoding = _encoded(model, "masked_lm", text)
    best = model.fill(text, top_k=1, candidates=None if token is None else [token]).predictions[0]
    place = encoding.ids.index(model.tokenizer.mask_id)
    head = model.network.heads["masked_lm"]

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        return [head(hidden, layout, where=layout.offsets[:-1].long() + place)]  # (n, V)

    return Target(model, encoding, read, (best.id,), "fill", best.token, [place])


def span_target(model: Model, question: str, context: str, answer: str | None = None) -> Target:
    """The span of an answer: the best one, or the first place where these words stand in the context."""
    encoding = _encoded(model, "span", question, context)
    found = model.answer(question, context, threshold=math.inf, top_k=1 if answer is None else _CANDIDATES)
    if answer is None:
        if found.start is None or found.end is None:
            raise BadInput("the context is empty; give some words")
        start, end = found.start, found.end
    else:
        start = context.find(answer)
        require(bool(answer) and start >= 0, f"{answer!r} does not stand in the context", BadInput)
        end = start + len(answer)
    pieces = encoding.pieces_of_span(start, end, part=1)
    require(len(pieces) > 0, f"the answer {context[start:end]!r} has no pieces", BadInput)
    head = model.network.heads["span"]

    def read(hidden: Tensor, layout: Packed) -> Sequence[Tensor]:
        return head(hidden, layout).unflatten(0, (layout.batch, -1)).unbind(-1)  # two of (n, T)

    columns = (pieces[0], pieces[-1])
    # question answering compares whole spans with one another, and with no answer at all
    stated = next((one.score for one in found.candidates if (one.start, one.end) == (start, end)), None)
    return Target(model, encoding, read, columns, "answer", context[start:end], sorted(set(columns)), stated)


_CANDIDATES = 20  # among which an answer that somebody named is looked for


def _encoded(model: Model, head: str, text: str, pair: str | None = None) -> Encoding:
    check_head(model.network, head)
    encoding = model.tokenizer.encode(text, pair)
    limit = model.encoder.max_length
    message = f"the input has {len(encoding)} tokens and the model {limit} positions"
    advice = "an answer is explained within one window, so give the part that matters"
    require(len(encoding) <= limit, f"{message}; {advice}", InputTooLong)
    require(any(map(len, encoding.parts)), "the text is empty; give some words", BadInput)
    return encoding
