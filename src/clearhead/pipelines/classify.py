"""Which class does a text, or a pair of texts, belong to: one label, several at once, or a number."""

# L labels

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.nn.network import Network
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.engine import Input, PerSequence, Progress, check_head, run
from clearhead.pipelines.inputs import inputs_of_pairs, inputs_of_texts
from clearhead.text import Tokenizer

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Classes:
    """The best label with its score, and the scores of all labels (or of the `top`), the best first.

    Scores are probabilities that sum to 1; with several labels at once, each is one by itself; of a regression, or a
    model with a single label, the score is the number itself.
    """

    label: str
    score: float
    scores: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"label": self.label, "score": self.score, "scores": self.scores}


def classify(
    network: Network,
    tokenizer: Tokenizer,
    texts: Iterable[str | Pair],
    *,
    labels: Sequence[str] | None = None,
    problem: str | None = None,
    top: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Classes]:
    """Classify texts, or pairs of texts, in order. `problem` is a checkpoint's problem_type.

    A document longer than the model is read in windows; its logits are their mean, each window counting as many times
    as it has tokens of its own. Of a pair, the longer text is read so, beside the whole of the shorter.
    """
    require(top is None or top > 0, f"top={top} labels cannot be given; choose 1 or more", BadInput)
    logits = class_logits(network, tokenizer, texts, progress=progress)
    return (_result(row, labels, problem, top) for row in logits)


def class_logits(
    network: Network,
    tokenizer: Tokenizer,
    texts: Iterable[str | Pair],
    *,
    progress: Progress | None = None,
) -> Iterator[Tensor]:
    """The logits (L,) of texts, or pairs of texts, in order, each of any length."""
    check_head(network, "classes")
    reader = PerSequence(network, "classes")

    def results(chunk: list[str | Pair]) -> Iterator[Tensor]:
        inputs = _inputs(tokenizer, chunk, network.encoder.max_length)
        outputs = run(reader, inputs, progress=progress)
        for windows, rows in zip(inputs, outputs, strict=True):
            yield merged(windows, rows)

    return chain.from_iterable(map(results, chunks_of_text(texts)))


def merged(windows: Sequence[Input], rows: Sequence[Tensor]) -> Tensor:
    """Logits of a text's windows -> the text's logits: the mean, weighted by the tokens each window speaks for."""
    if len(rows) == 1:
        return rows[0]
    weights = torch.tensor([float(one.weight) for one in windows])
    return weights @ torch.stack(list(rows)) / weights.sum()


def _inputs(tokenizer: Tokenizer, chunk: Sequence[str | Pair], limit: int) -> list[list[Input]]:
    for one in chunk:
        fits = isinstance(one, str) or (isinstance(one, tuple | list) and len(one) == 2)
        require(fits, f"An input is a text or a pair of texts, not {one!r}.", BadInput)
    single = iter(inputs_of_texts(tokenizer, [one for one in chunk if isinstance(one, str)], limit))
    paired = iter(inputs_of_pairs(tokenizer, [one for one in chunk if not isinstance(one, str)], limit))
    return [next(single if isinstance(one, str) else paired) for one in chunk]


def _result(logits: Tensor, labels: Sequence[str] | None, problem: str | None, top: int | None) -> Classes:
    names = labels or [f"LABEL_{i}" for i in range(len(logits))]
    if problem == "multi_label_classification":
        scores = logits.sigmoid()
    elif problem == "regression" or len(logits) == 1:
        scores = logits
    else:
        scores = logits.softmax(-1)
    ranked = sorted(zip(names, scores.tolist(), strict=True), key=lambda pair: -pair[1])
    return Classes(*ranked[0], dict(ranked[:top]))
