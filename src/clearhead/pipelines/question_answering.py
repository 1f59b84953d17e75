"""Extractive question answering: the span of a text of any length that answers a question, or none."""

# P pieces of the whole text · n pieces of a window · A longest answer, in pieces

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import cut_by_cost
from clearhead.errors import BadCheckpoint, BadInput, InputTooLong, require
from clearhead.io import Progress
from clearhead.pipelines.results import Answer as Answer
from clearhead.pipelines.results import Candidate as Candidate
from clearhead.pipelines.results import FoundAnswer as FoundAnswer
from clearhead.pipelines.results import FoundCandidate as FoundCandidate
from clearhead.pipelines.runner import Prepared, per_token, read, read_windows, through
from clearhead.text import Pieces, Window
from clearhead.text.encoding import room_for
from clearhead.text.packed import Bools, Ints, PackedPieces, PieceRanges, packed_spans, ranges, starts_of, wrap_packed
from clearhead.text.windows import cut

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model
    from clearhead.pipelines.search.index import Hit
    from clearhead.pipelines.search.stored import AnyIndex


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
    forward = through(model.network, "span")
    tokenizer, length = model.tokenizer, min(search.window, model.encoder.max_length)

    def prepare(chunk: list[tuple[str, str]]) -> Prepared[_Read]:
        # many questions may share a context, which is cut into pieces once
        number = {text: i for i, text in enumerate(dict.fromkeys(text for pair in chunk for text in pair))}
        pieces = tokenizer.packed_batch(list(number))
        asked, texts = (np.array([number[pair[side]] for pair in chunk]) for side in (0, 1))
        rooms = room_for(tokenizer.template, length, 0) - pieces.counts[asked]
        _check_room(int(rooms.min()), length)
        overlaps = np.minimum(search.overlap, rooms // 2)
        windows = packed_spans(pieces.starts[texts], pieces.counts[texts], rooms, overlaps)
        questions = asked[windows.text]
        beside = PieceRanges(pieces.starts[questions], pieces.counts[questions])
        sequences = wrap_packed(tokenizer.template, pieces, beside, windows.held)
        return Prepared(windows, sequences, _Read([context for _, context in chunk], pieces, pieces.counts[texts]))

    found = read(model.network, forward, per_token, questions, prepare, progress=progress)
    return (answer for ready, rows in found for answer in _answers(ready, rows, search))


@dataclass(frozen=True, slots=True)
class _Read:
    contexts: list[str]
    pieces: PackedPieces  # of all questions and contexts
    counts: Ints  # of each context


def _check_room(room: int, length: int) -> None:
    taken = f"The question and its special tokens take {length - room} tokens of a window of {length}"
    todo = "Shorten the question or use a checkpoint with more positions."
    require(room > 0, f"{taken}: no room is left for the text. {todo}", InputTooLong)


_PASSAGES = 10  # that are read for one question


def answer_from(
    model: "Model",
    index: "AnyIndex",
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


def read_passages(model: "Model", questions: Iterable[tuple[str, str]], search: Search) -> Iterator[Read]:
    """Of each (question, context) by itself: the context, its pieces, its windows, and their logits (tokens, 2)."""
    forward = through(model.network, "span")
    tokenizer, length = model.tokenizer, min(search.window, model.encoder.max_length)
    pieces: dict[str, Pieces] = {}  # of the texts that are being read

    def window(asked: Pieces, context: Pieces) -> list[Window]:
        """Cut the context into windows of at most `length` tokens, each with the whole question in front."""
        room = room_for(tokenizer.template, length, len(asked))
        _check_room(room, length)
        return cut(tokenizer.template, context, room, min(search.overlap, room // 2), before=asked)

    def windows(chunk: list[tuple[str, str]]) -> list[list[Window]]:
        # many questions may share a context, which is cut into pieces once
        texts = list(dict.fromkeys(text for pair in chunk for text in pair))
        pieces.clear()
        pieces.update(zip(texts, tokenizer.pieces_batch(texts), strict=True))
        return [window(pieces[asked], pieces[text]) for asked, text in chunk]

    read = read_windows(model.network, forward, per_token, questions, windows)
    return ((context, pieces[context], found, tables) for (_, context), found, tables in read)


_BLOCK = 8_192  # pieces whose spans are looked at together, few enough that they stay in a processor's cache


def _answers(ready: Prepared[_Read], rows: Tensor, search: Search) -> Iterator[Answer]:
    """The logits of all tokens (N, 2) as answers, in the order of the questions."""
    windows, sequences, read = ready.windows, ready.sequences, ready.held
    logits, windowed = rows.numpy(), windows.per_text()
    # [CLS] is the first token of every family that reads pairs
    opening = logits[sequences.starts[:-1]]
    nulls = np.minimum.reduceat(opening[:, 0] + opening[:, 1], windowed[:-1]).astype(np.float64)
    words = np.append(np.flatnonzero(read.pieces.opens_word()), len(read.pieces.ids))  # where each begins
    for block in cut_by_cost(np.arange(len(read.contexts)), read.counts, _BLOCK):
        own = slice(windowed[block[0]], windowed[block[-1] + 1])
        begins = starts_of(read.counts[block])
        passages = PieceRanges(sequences.starts[:-1][own] + sequences.parts[1][own], windows.count[own])
        firsts = begins[windows.text[own] - block[0]] + windows.first[own]
        spans = _Spans(
            *_span_logits(logits, passages, firsts, int(begins[-1]), search.max_answer_length),
            begins,
            nulls[block] + search.null_bias,
            windows.start[windowed[block]],
        )
        yield from spans.answers([read.contexts[i] for i in block], read.pieces, words, search)


def _span_logits(
    logits: NDArray[np.float32], passages: PieceRanges, firsts: Ints, total: int, longest: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The table of `SpanTable` (P, A) of many contexts, and the highest of each row (P,).

    A window's `passages` are the rows from `firsts` on.
    """
    tokens, starts = ranges(passages.first, passages.count), starts_of(passages.count)
    # behind each window nothing ends, so that no span goes beyond it
    places = ranges(starts[:-1] + np.arange(len(firsts)) * (longest - 1), passages.count)
    ends = np.full(len(tokens) + len(firsts) * (longest - 1), -np.inf, np.float32)
    ends[places] = logits[tokens, 1]
    if not len(tokens):
        return np.full((total, longest), -np.inf, np.float32), np.full(total, -np.inf, np.float32)
    found = torch.from_numpy(ends).unfold(0, longest, 1)[torch.from_numpy(places)].numpy()
    found += logits[tokens, :1]
    highest = _sliding_max(ends, longest)[places] + logits[tokens, 0]
    if len(tokens) == total:  # no piece is in two windows
        return found, highest
    table, most = np.full((total, longest), -np.inf, np.float32), np.full(total, -np.inf, np.float32)
    for first, start, stop in zip(firsts.tolist(), starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        for whole, own in ((table, found), (most, highest)):
            part = whole[first : first + stop - start]
            np.maximum(part, own[start:stop], out=part)
    return table, most


def _sliding_max(values: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The highest of each `size` neighbours, by maxima of 2, 4, 8 … of them."""
    reach = 1
    while reach < size:
        step = min(reach, size - reach)
        values, reach = np.maximum(values[:-step], values[step:]), reach + step
    return values


@dataclass(frozen=True, slots=True)
class _Spans:
    """The spans of several contexts in one table, so that all that is done to each of them is done to all at once.

    Rows begins[q] … begins[q + 1] - 1 are the pieces of context q, which begin at starts[q] among those of all texts.
    """

    logits: NDArray[np.float32]  # (P, A)
    highest: NDArray[np.float32]  # (P,) of each row
    begins: Ints  # (questions + 1,)
    nulls: NDArray[np.float64]  # (questions,)
    starts: Ints  # (questions,)

    def answers(self, contexts: Sequence[str], pieces: PackedPieces, words: Ints, search: Search) -> Iterator[Answer]:
        """The answer of each question. Nearly always it is the best span; only else are a question's spans ordered.

        `words` are the first pieces of all words, and one more.
        """
        best, places, several = self._best()
        starts, ends = self._characters(places, pieces, words if search.whole_words else None)
        columns = (best, self._totals(best), self.nulls, several, starts, ends)
        for q, (logit, total, null, more, start, end) in enumerate(
            zip(*(one.tolist() for one in columns), strict=True)
        ):
            context = contexts[q]
            if logit == -math.inf:
                candidates: tuple[Candidate, ...] = ()
            elif search.top_k > 1 or more or not (text := context[start:end]).strip():
                candidates = self._ordered(q, context, pieces, total, search)
            else:
                candidates = (Candidate(text, start, end, math.exp(logit - total), logit),)
            yield _answer(candidates, null, total, search.threshold)

    def _best(self) -> tuple[NDArray[np.float32], Ints, Bools]:
        """Of each context the logit of its best span, the place of that in the table, and whether there are several."""
        best = np.full(len(self.nulls), -np.inf, np.float32)
        places, several = self.begins[:-1] * self.logits.shape[1], np.zeros(len(best), np.bool_)
        sizes = self.begins[1:] - self.begins[:-1]
        held = np.flatnonzero(sizes)  # contexts that have pieces
        if len(held):
            best[held] = np.maximum.reduceat(self.highest, self.begins[held])
        finite = np.isfinite(self.nulls).all() and not (np.isnan(best) | (best == np.inf)).any()
        require(bool(finite), "the model computes numbers that are not finite; its weights are damaged", BadCheckpoint)
        if len(held):
            found = np.flatnonzero(self.highest == np.repeat(best, sizes))  # the rows of the best spans
            which = np.searchsorted(self.begins, found, side="right") - 1
            row, column = np.nonzero(self.logits[found] == best[which][:, None])
            which, spots = which[row], found[row] * self.logits.shape[1] + column
            places[which[::-1]] = spots[::-1]  # the first one counts
            several = np.bincount(which, minlength=len(best)) > 1
        return best, places, several

    def _characters(self, places: Ints, pieces: PackedPieces, words: Ints | None) -> tuple[Ints, Ints]:
        """Starts and ends in its context of the span at each place of the table; of whole `words`, if they are told."""
        longest, last_piece = self.logits.shape[1], len(pieces.ids) - 1
        if last_piece < 0:
            return places, places  # which nobody reads
        first = np.minimum(self.starts + places // longest - self.begins[:-1], last_piece)
        last = np.minimum(first + places % longest, last_piece)
        if words is not None:  # from the first piece of the first word to the last piece of the last
            first = words[np.searchsorted(words, first, side="right") - 1]
            last = words[np.searchsorted(words, last, side="right")] - 1
        return pieces.spans[first, 0], pieces.spans[last, 1]

    def _totals(self, best: NDArray[np.float32]) -> NDArray[np.float32]:
        """log Σ exp over all spans and "no answer": by it a logit becomes a probability."""
        sizes = (self.begins[1:] - self.begins[:-1]) * self.logits.shape[1] + 1
        ends = np.cumsum(sizes)
        values, flat = np.empty(ends[-1], np.float32), self.logits.ravel()
        values[ends - 1] = self.nulls
        for start, stop, q in zip((ends - sizes).tolist(), (ends - 1).tolist(), range(len(ends)), strict=True):
            values[start:stop] = flat[start - q : stop - q]
        most = np.maximum(best, self.nulls.astype(np.float32))
        values -= np.repeat(most, sizes)
        sums = [part.sum() for part in torch.from_numpy(values).exp_().split(sizes.tolist())]
        return torch.stack(sums).log_().add_(torch.from_numpy(most)).numpy()

    def _ordered(
        self, q: int, context: str, pieces: PackedPieces, total: float, search: Search
    ) -> tuple[Candidate, ...]:
        """The best spans of one question, each once, since several may widen to the same words."""
        rows = slice(self.begins[q], self.begins[q + 1])
        own = slice(self.starts[q], self.starts[q] + rows.stop - rows.start)
        offsets = [(start, end) for start, end in pieces.spans[own].tolist()]
        text = Pieces([], [], offsets, pieces.words[own].tolist())
        table = SpanTable(torch.from_numpy(self.logits[rows]), float(self.nulls[q]))
        found: dict[tuple[int, int], Candidate] = {}
        for start, end, logit in spans_of_text(context, text, table, search):
            found.setdefault((start, end), Candidate(context[start:end], start, end, math.exp(logit - total), logit))
            if len(found) == search.top_k:
                break
        return tuple(found.values())


def _answer(candidates: tuple[Candidate, ...], null: float, total: float, threshold: float) -> Answer:
    if not candidates or null - candidates[0].logit > threshold:
        return Answer(None, None, None, math.exp(null - total), null, candidates)
    best = candidates[0]
    return Answer(best.text, best.start, best.end, best.score, null, candidates)


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
