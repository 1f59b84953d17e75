"""Which of several continuations or answers fits best: multiple choice."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, starmap
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.pipelines.results import Choice as Choice
from clearhead.pipelines.runner import Prepared, merged, per_sequence, prepare_pairs, read, through

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

    def prepare(chunk: list[Question]) -> Prepared[list[Sequence[str]]]:
        for one in chunk:
            pair = isinstance(one, tuple | list) and len(one) == 2
            require(pair, f"A question is a pair (context, candidates), not {one!r}.", BadInput)
        for _, given in chunk:
            some = not isinstance(given, str) and len(given) > 0
            require(some, f"Candidates must be a list of at least one text, not {given!r}.", BadInput)
        pairs = [(context, one) for context, given in chunk for one in given]
        ready = prepare_pairs(model.tokenizer, pairs, model.encoder.max_length)
        candidates = [given for _, given in chunk]
        asked = np.repeat(np.arange(len(chunk)), [len(given) for given in candidates])
        return Prepared(ready.windows, ready.sequences, candidates, asked[ready.windows.text])

    def results(ready: Prepared[list[Sequence[str]]], rows: Tensor) -> Iterator[Choice]:
        logits = merged(ready.windows, rows)
        for given, own in zip(ready.held, logits.split([len(given) for given in ready.held]), strict=True):
            # how well each fits: its one score, or "it follows" less "it does not"
            scores = (own[:, 0] - own[:, 1:].sum(1)).softmax(-1)
            best = int(scores.argmax())
            yield Choice(given[best], best, float(scores[best]), tuple(scores.tolist()))

    found = read(model.network, forward, per_sequence, questions, prepare, progress=progress)
    return chain.from_iterable(starmap(results, found))
