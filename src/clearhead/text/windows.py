"""Long texts as overlapping windows that fit a model: nothing is truncated, and offsets refer to the whole text."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import BadInput, InputTooLong, require
from clearhead.text.encoding import Encoding
from clearhead.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Window:
    """One model input over part of a text: piece `first` of the text stands at `encoding.parts[-1].start`.

    `best` holds the token positions that have more context here than in any other window (as in BERT's SQuAD code):
    over all windows of a text, every piece of it is in `best` exactly once.
    """

    encoding: Encoding
    first: int
    best: range

    @property
    def passage(self) -> range:
        """Token positions of the text, without the question and the special tokens."""
        return self.encoding.parts[-1]

    def piece(self, position: int) -> int:
        """Which piece of the whole text stands at a token position of this window."""
        return self.first + position - self.passage.start


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
    """
    pieces = tokenizer.pieces(text) if isinstance(text, str) else tokenizer.pieces_of_words(text)
    asked = None if question is None else tokenizer.pieces(question)
    taken = tokenizer.template.specials(pair=asked is not None) + len(asked or ())
    room = length - taken
    require(
        room > 0,
        f"Windows of {length} tokens have no room for text: "
        f"{'special tokens' if asked is None else 'the question and the special tokens'} take {taken}. "
        f"Give {'longer windows' if asked is None else 'longer windows or a shorter question'}.",
        InputTooLong,
    )
    overlap = room // 3 if overlap is None else overlap
    require(
        0 <= overlap < room,
        f"Windows with room for {room} pieces cannot overlap by {overlap}; choose 0 to {room - 1}.",
        BadInput,
    )
    found: list[Window] = []
    for held, best in cuts(len(pieces), room, overlap):
        part = pieces.between(held.start, held.stop)
        encoding = tokenizer.template.wrap(part) if asked is None else tokenizer.template.wrap(asked, part)
        shift = encoding.parts[-1].start - held.start
        found.append(Window(encoding, held.start, range(best.start + shift, best.stop + shift)))
    return found


def cuts(count: int, room: int, overlap: int) -> list[tuple[range, range]]:
    """Cut `count` pieces into windows of at most `room`: the pieces each holds, and those it is the best window for."""
    starts = range(0, max(count - overlap, 1), room - overlap)
    # where two windows overlap, each is the better one for its own half
    borders = [0, *(start + (overlap + 1) // 2 for start in starts[1:]), count]
    return [
        (range(start, min(start + room, count)), range(borders[i], borders[i + 1])) for i, start in enumerate(starts)
    ]
