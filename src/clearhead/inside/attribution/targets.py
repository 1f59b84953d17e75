"""Make the target of each use: a class, the words behind a mask, or the span of an answer."""

# n sequences · T tokens · D width · L labels · V vocabulary

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, InputTooLong, WrongTask, require
from clearhead.inside.attribution.target import Reader, Target
from clearhead.nn.heads import LastTokenHead, TransformedPooler
from clearhead.nn.layout import Packed
from clearhead.pipelines.engine import check_head
from clearhead.pipelines.model import Model
from clearhead.text import Encoding

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
