"""Which of several continuations or answers fits best: multiple choice."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import torch

from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.pipelines.results import Choice as Choice
from clearhead.pipelines.runner import chunks_of_text, inputs_of_pairs, merged, per_sequence, run, through

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

Question = tuple[str, Sequence[str]]


def choose(model: "Model", questions: Iterable[Question], progress: Progress | None = None) -> Iterator[Choice]:
    """Choose, for each context, among its candidates; `questions` are (context, candidates).

    Context and candidate are read as a pair. A pair too long for the model is read in windows, as in `classify`. A
    network that has no head for choices, but one for next sentences, takes the candidate that follows best.
    """
    heads = model.network.heads
    forward = through(
        model.network, "next_sentence" if "choice" not in heads and "next_sentence" in heads else "choice"
    )

    def results(chunk: list[Question]) -> Iterator[Choice]:
        for one in chunk:
            pair = isinstance(one, tuple | list) and len(one) == 2
            require(pair, f"A question is a pair (context, candidates), not {one!r}.", BadInput)
        for _, given in chunk:
            some = not isinstance(given, str) and len(given) > 0
            require(some, f"Candidates must be a list of at least one text, not {given!r}.", BadInput)
        pairs = [(context, one) for context, given in chunk for one in given]
        read = iter(inputs_of_pairs(model.tokenizer, pairs, model.encoder.max_length))
        inputs = [[next(read) for _ in given] for _, given in chunk]
        flat = [list(chain.from_iterable(item)) for item in inputs]
        outputs = run(model.network, forward, per_sequence, flat, progress=progress)
        for (_, given), candidates, rows in zip(chunk, inputs, outputs, strict=True):
            left = iter(rows)
            logits = torch.stack([merged(windows, [next(left) for _ in windows]) for windows in candidates])
            # how well each fits: its one score, or "it follows" less "it does not"
            scores = (logits[:, 0] - logits[:, 1:].sum(1)).softmax(-1)
            best = int(scores.argmax())
            yield Choice(given[best], best, float(scores[best]), tuple(scores.tolist()))

    return chain.from_iterable(map(results, chunks_of_text(questions)))
