"""Extractive question answering: the span of a text of any length that answers a question, or none."""

# P pieces of the whole text · n pieces of a window · A longest answer, in pieces

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadCheckpoint, BadInput, InputTooLong, require
from clearhead.io import Progress
from clearhead.pipelines.results import Answer as Answer
from clearhead.pipelines.results import Candidate as Candidate
from clearhead.pipelines.results import FoundAnswer as FoundAnswer
from clearhead.pipelines.results import FoundCandidate as FoundCandidate
from clearhead.pipelines.runner import per_token, read_windows, through
from clearhead.text import Pieces, Window
from clearhead.text.windows import cut, room_for

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model
    from clearhead.pipelines.search.index import Hit, Index


@dataclass(frozen=True, slots=True)
class SpanTable:
    """`logits[p, a]` is start + end logit of pieces p … p + a, the larger one where windows overlap; -inf: no span.

    `null` is the logit of "no answer": [CLS] as start and end, in the window that believes in it least.
    """

    logits: Tensor  # (P, A)
    null: float

    @classmethod
    def of(
        cls, pieces: int, windows: Sequence[tuple[int, range, Tensor]], longest: int, null_bias: float = 0.0
    ) -> "SpanTable":
        """Collect the windows: of each its first piece, the token positions of the text, and its logits (tokens, 2)."""
        logits = torch.full((pieces, longest), -torch.inf)
        for first, passage, table in windows:
            if not passage:  # an empty text
                continue
            start, end = table[passage.start : passage.stop].unbind(-1)
            ends = F.pad(end, (0, longest - 1), value=-torch.inf).unfold(0, longest, 1)  # (n, A)
            part = logits[first : first + len(passage)]
            torch.maximum(part, start[:, None] + ends, out=part)
        # [CLS] is the first token of every family that reads pairs
        null = min(float(table[0].sum()) for _, _, table in windows) + null_bias
        finite = math.isfinite(null) and not bool((logits.isnan() | (logits == torch.inf)).any())
        require(finite, "the model computes numbers that are not finite; its weights are damaged", BadCheckpoint)
        return cls(logits, null)

    def best(self) -> Iterator[tuple[int, int, float]]:
        """First piece, last piece and logit of every span, the best first."""
        flat, longest = self.logits.flatten(), self.logits.shape[1]
        given, count = 0, min(32, len(flat))
        while given < count:
            values, places = flat.topk(count)
            for value, place in zip(values[given:].tolist(), places[given:].tolist(), strict=True):
                if value == -torch.inf:
                    return
                yield place // longest, place // longest + place % longest, value
            given, count = count, min(8 * count, len(flat))


@dataclass(frozen=True, slots=True)
class Search:
    """How answers are looked for; the defaults are those of transformers' pipeline.

    `threshold`: abstain when "no answer" beats the best span by more than this (math.inf: never abstain).
    `null_bias` is added to the logit of "no answer": what a model's calibration found, and no option of `Model.answer`.
    `whole_words`: widen answers to whole words; switch it off for languages written without spaces.
    """

    top_k: int = 1
    threshold: float = 0.0
    null_bias: float = 0.0
    max_answer_length: int = 30  # in pieces
    window: int = 384
    overlap: int = 128
    whole_words: bool = True

    def __post_init__(self) -> None:
        for name in ("top_k", "max_answer_length", "window"):
            value = getattr(self, name)
            require(value > 0, f"{name}={value} must be 1 or more", BadInput)
        require(not math.isnan(self.threshold), "threshold=nan is no number; math.inf means: always answer", BadInput)
        require(self.overlap >= 0, f"overlap={self.overlap} must not be negative", BadInput)


def answer(
    model: "Model", questions: Iterable[tuple[str, str]], search: Search, progress: Progress | None = None
) -> Iterator[Answer]:
    """Answer (question, context) pairs in order, each context of any length, all windows packed together.

    A score is a probability among all spans of all windows and "no answer" (transformers v4 multiplies the start's and
    the end's probability within a window instead, so that its scores do not compare across windows).
    """
    return (_result(*read, search) for read in read_passages(model, questions, search, progress))


_PASSAGES = 10  # that are read for one question


def answer_from(
    model: "Model",
    index: "Index",
    questions: Iterable[str],
    search: Search,
    rerank_with: "Model | None" = None,
    progress: Progress | None = None,
) -> Iterator[FoundAnswer]:
    """Answer questions from the documents of an index: find the passages that fit, then read these."""
    for question in questions:
        hits = index.search(question, top_k=_PASSAGES, rerank_with=rerank_with)
        read = answer(model, ((question, hit.text) for hit in hits), search)
        yield _best_of(hits, list(read), search)
        if progress is not None:
            progress(1)


def _best_of(hits: "Sequence[Hit]", found: Sequence[Answer], search: Search) -> FoundAnswer:
    """The best answers of several passages; which one is right is known by its passage and by its place therein."""
    best_hit = max((hit.score for hit in hits), default=1.0)
    shares = [hit.score / best_hit for hit in hits]
    ranked = sorted(
        (
            (share * one.score, one, hit, result)
            for hit, share, result in zip(hits, shares, found, strict=True)
            for one in result.candidates
        ),
        key=lambda entry: -entry[0],
    )[: search.top_k]
    candidates = tuple(
        FoundCandidate(one.text, hit.start + one.start, hit.start + one.end, score, one.logit, hit.source)
        for score, one, hit, _ in ranked
    )
    if not ranked or ranked[0][3].margin > search.threshold:
        null = min((one.null_score for one in found), default=0.0)
        return FoundAnswer(None, None, None, 1 - (ranked[0][0] if ranked else 0.0), null, candidates)
    best = candidates[0]
    return FoundAnswer(best.text, best.start, best.end, best.score, ranked[0][3].null_score, candidates, best.source)


Read = tuple[str, Pieces, list[Window], list[Tensor]]


def read_passages(
    model: "Model", questions: Iterable[tuple[str, str]], search: Search, progress: Progress | None = None
) -> Iterator[Read]:
    """Of each (question, context): the context, its pieces, its windows, and their logits (tokens, 2)."""
    forward = through(model.network, "span")
    tokenizer, length = model.tokenizer, min(search.window, model.encoder.max_length)
    pieces: dict[str, Pieces] = {}  # of the texts that are being read

    def window(asked: Pieces, context: Pieces) -> list[Window]:
        """Cut the context into windows of at most `length` tokens, each with the whole question in front."""
        room = room_for(tokenizer.template, length, len(asked))
        taken = f"The question and its special tokens take {length - room} tokens of a window of {length}"
        todo = "Shorten the question or use a checkpoint with more positions."
        require(room > 0, f"{taken}: no room is left for the text. {todo}", InputTooLong)
        return cut(tokenizer.template, context, room, min(search.overlap, room // 2), before=asked)

    def windows(chunk: list[tuple[str, str]]) -> list[list[Window]]:
        # many questions may share a context, which is cut into pieces once
        texts = list(dict.fromkeys(text for pair in chunk for text in pair))
        pieces.clear()
        pieces.update(zip(texts, tokenizer.pieces_batch(texts), strict=True))
        return [window(pieces[asked], pieces[text]) for asked, text in chunk]

    read = read_windows(model.network, forward, per_token, questions, windows, progress)
    return ((context, pieces[context], found, tables) for (_, context), found, tables in read)


def _result(context: str, pieces: Pieces, item: list[Window], tables: Sequence[Tensor], search: Search) -> Answer:
    windows = [(one.first, one.passage, logits) for one, logits in zip(item, tables, strict=True)]
    table = SpanTable.of(len(pieces), windows, search.max_answer_length, search.null_bias)
    # over all spans and "no answer": by it a logit becomes a probability
    total = float(torch.cat([table.logits.flatten(), torch.tensor([table.null])]).logsumexp(0))
    found: dict[tuple[int, int], Candidate] = {}
    for start, end, logit in spans_of_text(context, pieces, table, search):
        one = Candidate(context[start:end], start, end, math.exp(logit - total), logit)
        found.setdefault((start, end), one)
        if len(found) == search.top_k:
            break
    candidates = tuple(found.values())
    if not candidates or table.null - candidates[0].logit > search.threshold:
        return Answer(None, None, None, math.exp(table.null - total), table.null, candidates)
    best = candidates[0]
    return Answer(best.text, best.start, best.end, best.score, table.null, candidates)


def spans_of_text(
    context: str, pieces: Pieces, table: SpanTable, search: Search, *, offset: int = 0
) -> Iterator[tuple[int, int, float]]:
    """Start, end and logit of all spans that are more than white space, the best first.

    `offset` is the piece of the text that the table begins with.
    """
    for first, last, logit in table.best():
        first, last = first + offset, last + offset
        if search.whole_words:
            # from the first piece of the first word to the last piece of the last
            words = pieces.words
            first, last = bisect_left(words, words[first]), bisect_right(words, words[last]) - 1
        start, end = pieces.offsets[first][0], pieces.offsets[last][1]
        if context[start:end].strip():
            yield start, end, logit
