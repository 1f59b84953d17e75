"""Classes of texts and of pairs of texts, zero-shot labels by inference or vectors, and the similarity of a pair."""

# L labels of the checkpoint · C labels asked for

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import BadInput, WrongTask, require
from clearhead.io import Progress, in_wholes
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.results import Classes as Classes
from clearhead.pipelines.runner import (
    Prepared,
    check_head,
    chunks_of_text,
    interleaved,
    listed,
    merged,
    per_sequence,
    plain,
    prepare_pairs,
    prepare_texts,
    read,
    through,
)
from clearhead.text import Tokenizer

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

Pair = tuple[str, str]


def classify(
    model: "Model", texts: Iterable[str | Pair], top_k: int | None, progress: Progress | None
) -> Iterator[Classes]:
    """Classify texts, or pairs of texts, in order.

    A document longer than the model is read in windows; its logits are their mean, each window counting as many times
    as it has tokens of its own. Of a pair, the longer text is read so, beside the whole of the shorter.
    """
    _check_top(top_k)
    problem = model.checkpoint.description.problem

    def results(logits: Tensor) -> Iterator[Classes]:
        if problem == "multi_label_classification":
            scores = logits.sigmoid()
        else:
            scores = logits if problem == "regression" or logits.shape[1] == 1 else logits.softmax(-1)
        return _ranked(model.labels or [f"LABEL_{i}" for i in range(logits.shape[1])], scores, top_k)

    return chain.from_iterable(map(results, class_tables(model, texts, progress)))


def class_logits(
    model: "Model", texts: Iterable[str | Pair], progress: Progress | None = None, *, head: str = "classes"
) -> Iterator[Tensor]:
    """The logits (L,) of texts, or pairs of texts, in order, each of any length, by any `head` that reads sequences."""
    return chain.from_iterable(class_tables(model, texts, progress, head=head))


def class_tables(
    model: "Model", texts: Iterable[str | Pair], progress: Progress | None = None, *, head: str = "classes"
) -> Iterator[Tensor]:
    """The same, many texts at a time: (texts, L)."""
    forward, tokenizer, limit = through(model.network, head), model.tokenizer, model.encoder.max_length

    def prepare(chunk: list[str | Pair]) -> Prepared[None]:
        return _prepared(tokenizer, chunk, limit)

    found = read(model.network, forward, per_sequence, texts, prepare, progress=progress)
    return (merged(ready.windows, logits) for ready, logits in found)


def _prepared(tokenizer: Tokenizer, chunk: Sequence[str | Pair], limit: int) -> Prepared[None]:
    texts = [one for one in chunk if isinstance(one, str)]
    if len(texts) == len(chunk):
        return prepare_texts(tokenizer, texts, limit)
    pairs = [one for one in chunk if not isinstance(one, str)]
    for one in pairs:
        fits = isinstance(one, tuple | list) and len(one) == 2
        require(fits, f"An input is a text or a pair of texts, not {one!r}.", BadInput)
    paired = prepare_pairs(tokenizer, pairs, limit)
    if not texts:
        return paired
    alone = np.fromiter((isinstance(one, str) for one in chunk), np.bool_, len(chunk))
    return interleaved(prepare_texts(tokenizer, texts, limit), paired, alone)


def _check_top(top_k: int | None) -> None:
    require(top_k is None or top_k > 0, f"top_k={top_k} labels cannot be given; choose 1 or more", BadInput)


def _ranked(names: Sequence[str], scores: Tensor, top_k: int | None) -> Iterator[Classes]:
    """Scores (texts, L) as results: labels in the order of their scores, those that are as good in their own."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    for values, places in zip(ordered.tolist(), order.tolist(), strict=True):
        ranked = [names[place] for place in places]
        yield Classes(ranked[0], values[0], dict(zip(ranked[:top_k], values, strict=False)))


TEMPLATE = "This text is about {}."


def zero_shot(
    model: "Model",
    texts: Iterable[str],
    labels: Sequence[str],
    template: str,
    *,
    multi_label: bool,
    top_k: int | None,
    progress: Progress | None,
) -> Iterator[Classes]:
    """Rank the labels for each text, in order; the checkpoint's own must have entailment among them.

    Every label is put into the template and read beside the text, which may be of any length. Scores sum to 1; with
    `multi_label` (or a single label) each is a probability by itself: entailment against contradiction.
    """
    check_head(model.network, "classes")
    _check_top(top_k)
    entailment, contradiction = _relation(model.labels)
    names = _names(labels)
    hypotheses = [_written(template, name) for name in names]
    pairs = ((text, hypothesis) for text in texts for hypothesis in hypotheses)
    logits = class_logits(model, pairs, in_wholes(progress, len(names), 1))

    def result(rows: tuple[Tensor, ...]) -> Classes:
        table = torch.stack(rows)  # (C, L)
        if multi_label or len(names) == 1:
            scores = table[:, [contradiction, entailment]].softmax(-1)[:, 1]
        else:
            scores = table[:, entailment].softmax(-1)
        return next(_ranked(names, scores[None], top_k))

    return map(result, zip(*[logits] * len(names), strict=True))


def _names(labels: Sequence[str]) -> list[str]:
    names = [] if isinstance(labels, str) else list(dict.fromkeys(map(plain, listed(labels))))
    several = bool(names) and all(isinstance(name, str) for name in names)
    require(several, f"labels must be a list of at least one text, not {labels!r}", BadInput)
    return names


def _relation(known: Sequence[str] | None) -> tuple[int, int]:
    """Where the checkpoint has "entailment", and what stands against it."""
    names = [label.lower() for label in known or ()]
    entailment = next((i for i, name in enumerate(names) if name.startswith("entail")), None)
    if entailment is None:
        there = f"its labels are {', '.join(known)}" if known else "its labels have no names"
        raise WrongTask(
            f"this model has no label for entailment: {there}; to classify by labels of your own, "
            "load a checkpoint that was trained on inference (such as MNLI)"
        )
    # in checkpoints of two labels the other one is called "not_entailment", and stands first or last
    other = -1 if entailment == 0 else 0
    return entailment, next((i for i, name in enumerate(names) if name.startswith("contra")), other)


def _written(template: str, name: str) -> str:
    try:
        written = template.format(name)
    except (IndexError, KeyError, ValueError):
        written = template
    filled = written != template
    require(filled, f"hypothesis_template={template!r} has no place for a label; write {{}} there", BadInput)
    return written


_SHARPNESS = 20.0  # of cosines, one over the temperature: that which vectors are trained with


def zero_shot_by_vectors(
    texts: Iterable[str],
    labels: Sequence[str],
    template: str,
    embed: Callable[..., Vectors],
    *,
    top_k: int | None,
    progress: Progress | None,
) -> Iterator[Classes]:
    """Rank the labels for each text, in order, by the cosine of both vectors; `embed` gives unit ones.

    Scores sum to 1.
    """
    _check_top(top_k)
    names = _names(labels)
    wanted = torch.from_numpy(embed([_written(template, name) for name in names]))  # (C, D)
    for chunk in chunks_of_text(texts):
        scores = (_SHARPNESS * torch.from_numpy(embed(chunk, progress=progress)) @ wanted.T).softmax(-1)
        yield from _ranked(names, scores, top_k)


LABEL = "similarity"


def cosines(pairs: Iterable[Pair], embed: Callable[[Sequence[str]], Vectors]) -> Iterator[Classes]:
    """Compare the texts of each pair, in order; `embed` gives unit vectors. The score is the cosine, from -1 to 1."""
    for chunk in chunks_of_text(pairs):
        first, second = (embed(list(side)) for side in zip(*chunk, strict=True))
        for cosine in (first * second).sum(1).tolist():
            yield Classes(LABEL, cosine, {LABEL: cosine})
