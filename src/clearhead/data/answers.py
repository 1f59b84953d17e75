"""Questions to windows over their contexts, and answers to token positions inside each window; offsets are exact."""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from clearhead.data.encoded import Encoded, Writer, ids_and_capitals
from clearhead.data.examples import QuestionExample
from clearhead.data.squad import misplaced
from clearhead.errors import BadInput, InputTooLong, require
from clearhead.text.encoding import Pieces, Span
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import cuts

log = logging.getLogger(__name__)

_BLOCK = 1024


def encode_answers(
    examples: Sequence[QuestionExample], tokenizer: Tokenizer, *, length: int = 384, overlap: int = 128
) -> Encoded:
    """Cut contexts into windows of at most `length` tokens with the question in front, as `text.windows` does.

    Targets: starts and ends (E,), both 0 where a window does not hold the answer whole; of several answers the first
    is learnt. Questions whose answer is not in the context where it says are left out. A very long question shrinks
    the overlap to half the room.
    """
    require(bool(examples), "There are no examples.", BadInput)
    contexts = _contexts(tokenizer, list(dict.fromkeys(example.context for example in examples)))
    questions, capitals = ids_and_capitals(tokenizer, [example.question for example in examples])
    specials = tokenizer.template.specials(pair=True)
    writer = Writer(tokenizer.template)
    answers: list[tuple[int, int]] = []
    rejected: list[str] = []
    for i, (example, question) in enumerate(zip(examples, questions, strict=True)):
        context = contexts[example.context]
        first, last = _pieces_of(example, context.offsets)
        if reason := _unusable(example, (first, last)):
            rejected.append(f"{example.id!r}: {reason}")
            continue
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
            shift = writer.add(question, part.ids, capitals=told) - held.start
            holds = held.start <= first and last < held.stop
            answers.append((first + shift, last + shift) if holds else (0, 0))
    if rejected:
        require(bool(answers), f"No question can be learnt from; the first, {rejected[0]}.", BadInput)
        log.warning("%d questions cannot be learnt from and are left out; the first, %s.", len(rejected), rejected[0])
    starts, ends = np.array(answers, dtype=np.int64).T
    return writer.done(targets={"starts": starts, "ends": ends})


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
