"""Questions to windows over their contexts, and answers to token positions inside each window; offsets are exact."""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from clearhead.data.encoded import Arrays, Encoded, Writer, ids_and_capitals
from clearhead.data.examples import QuestionExample
from clearhead.data.squad import misplaced
from clearhead.errors import BadInput, InputTooLong, require
from clearhead.text.encoding import Pieces, Span
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import cuts

log = logging.getLogger(__name__)

_BLOCK = 1024


@dataclass(frozen=True)
class Rejected:
    """A question that cannot be learnt from, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class AnswerWindows:
    """Windows over contexts, each with the whole question; piece `first` of the context stands at token `passage`."""

    encoded: Encoded
    examples: Sequence[QuestionExample]
    spans: Sequence[Sequence[Span]]  # of each example's context, characters of each piece
    owners: NDArray[np.int64]  # (E,) the example of each window
    first: NDArray[np.int64]  # (E,)
    passage: NDArray[np.int64]  # (E,)
    count: NDArray[np.int64]  # (E,) pieces of the context in each window
    rejected: tuple[Rejected, ...] = ()

    def characters(self, window: int, start: int, end: int) -> Span:
        """Characters of the context from the token at `start` through the token at `end` of a window."""
        shift = int(self.first[window] - self.passage[window])
        spans = self.spans[self.owners[window]]
        return spans[start + shift][0], spans[end + shift][1]

    def text(self, window: int, start: int, end: int) -> str:
        """Read the answer between two tokens of a window: a verbatim slice of the context."""
        first, last = self.characters(window, start, end)
        return self.examples[self.owners[window]].context[first:last]

    def only(self, windows: NDArray[np.bool_], targets: Arrays) -> Self:
        """Keep the windows that are True, and give them these targets."""
        kept = {name: values[windows] for name, values in targets.items()}
        return replace(
            self,
            encoded=replace(self.encoded, members=self.encoded.members[windows], targets=kept),
            owners=self.owners[windows],
            first=self.first[windows],
            passage=self.passage[windows],
            count=self.count[windows],
        )


def encode_questions(
    examples: Sequence[QuestionExample],
    tokenizer: Tokenizer,
    *,
    length: int = 384,
    overlap: int = 128,
) -> AnswerWindows:
    """Cut contexts into windows of at most `length` tokens with the question in front, as `text.windows` does.

    Contexts that several questions share are tokenised once. A very long question shrinks the overlap to half the room.
    """
    require(bool(examples), "There are no examples.", BadInput)
    contexts = _contexts(tokenizer, list(dict.fromkeys(example.context for example in examples)))
    questions, capitals = ids_and_capitals(tokenizer, [example.question for example in examples])
    specials = tokenizer.template.specials(pair=True)
    writer = Writer(tokenizer.template)
    rows: list[tuple[int, int, int, int]] = []
    for i, (example, question) in enumerate(zip(examples, questions, strict=True)):
        context = contexts[example.context]
        room = length - specials - len(question)
        require(
            room > 1,
            f"Question {example.id!r} has {len(question)} tokens, which leaves no room for its context in windows of "
            f"{length} tokens. Give longer windows, or take it out.",
            InputTooLong,
        )
        for held, _ in cuts(len(context), room, min(overlap, room // 2)):
            part = context.between(held.start, held.stop)
            told = None if capitals is None else [capitals[i], part.capitals or []]
            rows.append((i, held.start, writer.add(question, part.ids, capitals=told), len(part)))
    owners, first, passage, count = np.array(rows, dtype=np.int64).T
    spans = [contexts[example.context].offsets for example in examples]
    return AnswerWindows(writer.done(), examples, spans, owners, first, passage, count)


def encode_answers(
    examples: Sequence[QuestionExample],
    tokenizer: Tokenizer,
    *,
    length: int = 384,
    overlap: int = 128,
) -> AnswerWindows:
    """Cut into windows, with targets: starts and ends (E,), both 0 where a window does not hold the answer whole.

    Where several answers are given, the first is learnt. Questions whose answers are not in the context where they say
    are left out and listed in `rejected`.
    """
    found = encode_questions(examples, tokenizer, length=length, overlap=overlap)
    pieces = [_pieces_of(example, spans) for example, spans in zip(examples, found.spans, strict=True)]
    reasons = [_unusable(example, span) for example, span in zip(examples, pieces, strict=True)]
    rejected = tuple(Rejected(e.id, reason) for e, reason in zip(examples, reasons, strict=True) if reason is not None)
    if rejected:
        first = f"the first, {rejected[0].id!r}: {rejected[0].reason}"
        require(len(rejected) < len(examples), f"No question can be learnt from; {first}.", BadInput)
        log.warning("%d questions cannot be learnt from and are left out; %s.", len(rejected), first)
    begin, end = np.array(pieces, dtype=np.int64)[found.owners].T
    holds = (begin >= found.first) & (end < found.first + found.count)
    shift = found.passage - found.first
    targets = {"starts": np.where(holds, begin + shift, 0), "ends": np.where(holds, end + shift, 0)}
    usable = np.array([reason is None for reason in reasons])[found.owners]
    return replace(found.only(usable, targets), rejected=rejected)


def _contexts(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Pieces]:
    found: dict[str, Pieces] = {}
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        found.update(zip(block, tokenizer.pieces_batch(block), strict=True))
    return found


def _pieces_of(example: QuestionExample, spans: Sequence[Span]) -> tuple[int, int]:
    """First and last piece that share a character with the answer; the last comes before the first if none does."""
    if not example.answers:
        return -1, -2
    text, start = example.answers[0]
    first = bisect_right(spans, start, key=lambda span: span[1])
    return first, bisect_left(spans, start + len(text), lo=first, key=lambda span: span[0]) - 1


def _unusable(example: QuestionExample, pieces: tuple[int, int]) -> str | None:
    if example.impossible:
        return None
    if not example.answers:
        return "there is no answer, and it is not marked as impossible"
    text, start = example.answers[0]
    wrong = [there for answer, at, there in misplaced(example) if (answer, at) == (text, start)]
    if wrong:
        return f"the answer {text!r} is not at character {start}, where {wrong[0]!r} stands"
    return f"the answer {text!r} has no tokens" if pieces[0] > pieces[1] else None
