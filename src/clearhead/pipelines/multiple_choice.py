"""Which of several continuations or answers fits best: multiple choice."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.io import Progress, Record
from clearhead.nn.heads import Network
from clearhead.pipelines.classification import merged
from clearhead.pipelines.runner import check_head, chunks_of_text, inputs_of_pairs, per_sequence, run_head
from clearhead.text import Tokenizer

Question = tuple[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Choice(Record):
    """The chosen candidate, where it stands among the given ones, and the probability of each, in the given order."""

    text: str
    index: int
    score: float
    scores: tuple[float, ...]


def choose(
    network: Network,
    tokenizer: Tokenizer,
    questions: Iterable[Question],
    *,
    progress: Progress | None = None,
) -> Iterator[Choice]:
    """Choose, for each context, among its candidates; `questions` are (context, candidates).

    Context and candidate are read as a pair. A pair too long for the model is read in windows, as in `classify`. A
    network that has no head for choices, but one for next sentences, takes the candidate that follows best.
    """
    head = "next_sentence" if "choice" not in network.heads and "next_sentence" in network.heads else "choice"
    if head == "choice":
        check_head(network, head)
    limit = network.encoder.max_length

    def results(chunk: list[Question]) -> Iterator[Choice]:
        for _, given in chunk:
            some = not isinstance(given, str) and len(given) > 0
            require(some, f"Candidates must be a list of at least one text, not {given!r}.", BadInput)
        pairs = iter(inputs_of_pairs(tokenizer, [(context, one) for context, given in chunk for one in given], limit))
        inputs = [[next(pairs) for _ in given] for _, given in chunk]
        flat = [list(chain.from_iterable(item)) for item in inputs]
        outputs = run_head(network, head, per_sequence, flat, progress=progress)
        for (_, given), candidates, rows in zip(chunk, inputs, outputs, strict=True):
            left = iter(rows)
            logits = torch.cat([_fits(merged(windows, [next(left) for _ in windows])) for windows in candidates])
            scores = logits.softmax(-1)
            best = int(scores.argmax())
            yield Choice(given[best], best, float(scores[best]), tuple(scores.tolist()))

    return chain.from_iterable(map(results, chunks_of_text(questions)))


def _fits(logits: Tensor) -> Tensor:
    """How well a candidate fits: its one score, or "it follows" less "it does not"."""
    return logits if len(logits) == 1 else logits[:1] - logits[1:]
