"""Long texts as overlapping windows that fit a model: nothing is truncated, and offsets refer to the whole text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clearhead.errors import BadInput, InputTooLong, keywords
from clearhead.text.encoding import Encoding, Pieces, Template
from clearhead.text.encoding import room_for as room_for
from clearhead.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Window:
    """One model input over part of a text: piece `first` of the text stands at the start of `passage`.

    `passage` holds the token positions of the text, without the text beside it and the special tokens, and `best`
    those that have more context here than in any other window (as in BERT's SQuAD code): over all windows of a text,
    every piece of it is in `best` exactly once.
    """

    encoding: Encoding
    first: int
    passage: range
    best: range

    def piece(self, position: int) -> int:
        """Which piece of the whole text stands at a token position of this window."""
        return self.first + position - self.passage.start


@keywords
def windows(
    tokenizer: Tokenizer,
    text: str | Sequence[str],
    *,
    length: int,
    overlap: int | None = None,
    question: str | None = None,
) -> list[Window]:
    """Cut a text (or a list of words) into windows of at most `length` tokens, each with the whole question in front.

    Neighbours share `overlap` pieces (default: a third of the room). Windows slide by pieces and may cut a word at
    an edge; take a word's answer from the window where its first piece is in `best`. An empty text gives one window.

    >>> found = clearhead.windows(model.tokenizer, "one two three four five six", length=5, overlap=1)
    >>> [len(window.encoding) for window in found]
    [5, 5, 4]
    """
    pieces = tokenizer.pieces(text) if isinstance(text, str) else tokenizer.words_batch([text])[0]
    asked = None if question is None else tokenizer.pieces(question)
    room = room_for(tokenizer.template, length, None if asked is None else len(asked))
    return cut(tokenizer.template, pieces, room, overlap, before=asked)


def cut(
    template: Template,
    text: Pieces,
    room: int,
    overlap: int | None = None,
    *,
    before: Pieces | None = None,
    after: Pieces | None = None,
) -> list[Window]:
    """Cut a tokenised text into windows of `room` pieces, each with all of another text before or after it, if any."""
    other = after if before is None else before
    if room < 1:
        taken, asked = template.specials(pair=other is not None) + len(other or ()), other is not None
        takes = f"{'the question and the ' if asked else ''}special tokens take {taken}"
        remedy = f"Give longer windows{' or a shorter question' if asked else ''}."
        raise InputTooLong(f"Windows of {taken + room} tokens have no room for text: {takes}. {remedy}")
    found: list[Window] = []
    for held, best in spans(len(text), room, overlap):
        part = text if len(held) == len(text) else text.between(held.start, held.stop)
        encoding = template.wrap(part, after) if before is None else template.wrap(before, part)
        passage = encoding.parts[0 if before is None else 1]
        shift = passage.start - held.start
        found.append(Window(encoding, held.start, passage, range(best.start + shift, best.stop + shift)))
    return found


def check_overlap(room: int, overlap: int) -> None:
    """Refuse windows that would not advance."""
    if not 0 <= overlap < room:
        raise BadInput(f"Windows with room for {room} pieces cannot overlap by {overlap}; choose 0 to {room - 1}.")


def spans(count: int, room: int, overlap: int | None = None) -> list[tuple[range, range]]:
    """Cut `count` pieces into windows of at most `room`: the pieces each holds, and those it is the best window for."""
    overlap = room // 3 if overlap is None else overlap
    check_overlap(room, overlap)
    starts = range(0, max(count - overlap, 1), room - overlap)
    # where two windows overlap, each is the better one for its own half
    borders = pairwise([0, *(start + (overlap + 1) // 2 for start in starts[1:]), count])
    return [(range(i, min(i + room, count)), range(*best)) for i, best in zip(starts, borders, strict=True)]
