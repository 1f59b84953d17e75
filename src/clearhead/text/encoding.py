"""What a vocabulary of small letters loses: whether a word has capitals (Paris, iPhone) or nothing else (NATO)."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import groupby

from clearhead.errors import BadInput, require

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of one text, without special tokens; offsets count characters of the text as the user gave it."""

    ids: list[int]
    tokens: list[str]
    offsets: list[Span]
    words: list[int]
    capitals: list[int] | None = None  # kinds of words, where the tokenizer tells them (see `text.encoding`)

    def __len__(self) -> int:
        return len(self.ids)

    def between(self, start: int, stop: int) -> "Pieces":
        """Pieces start … stop - 1; their offsets and words still refer to the whole text."""
        return Pieces(
            self.ids[start:stop],
            self.tokens[start:stop],
            self.offsets[start:stop],
            self.words[start:stop],
            None if self.capitals is None else self.capitals[start:stop],
        )


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a model reads for one text or a pair, one entry a token; offsets and words are None at special tokens.

    `segments` is what the model sees (all 0 in RoBERTa): the `sentences` as the family numbers them, or the kinds of
    capitals, where the tokenizer tells them. `parts` holds the token positions of each text, in order, and is what the
    methods below go by. Offsets count characters of that part's own text.
    """

    ids: list[int]
    segments: list[int]
    sentences: list[int]
    tokens: list[str]
    offsets: list[Span | None]
    words: list[int | None]
    parts: tuple[range, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def special(self) -> list[bool]:
        """True at the tokens that were put round the text; a [MASK] typed by the user is text."""
        return [offset is None for offset in self.offsets]

    def rows(self) -> list[tuple[str, int, int]]:
        """The input as a table: token, position and sentence, both counted from 1."""
        return [(token, i + 1, self.sentences[i] + 1) for i, token in enumerate(self.tokens)]

    def part_of(self, position: int) -> int | None:
        """Which text the token at this position comes from; None for a special token."""
        return next((i for i, part in enumerate(self.parts) if position in part), None)

    def pieces_of_word(self, word: int, part: int = 0) -> range:
        """Token positions of a word; empty if the word has no pieces or lies outside this window."""
        positions = self._positions(part)
        first = bisect_left(positions, word, key=self._word)
        return positions[first : bisect_right(positions, word, lo=first, key=self._word)]

    def first_pieces(self, part: int = 0) -> dict[int, int]:
        """For every word of the part, in order, the position of its first piece: where a tagger puts its label."""
        first: dict[int, int] = {}
        for position in self._positions(part):
            first.setdefault(self._word(position), position)
        return first

    def pieces_of_span(self, start: int, end: int, part: int = 0) -> range:
        """Positions of the tokens that share at least one character with text[start:end]; may be empty."""
        positions = self._positions(part)
        first = bisect_right(positions, start, key=lambda i: self._span(i)[1])
        last = bisect_left(positions, end, lo=first, key=lambda i: self._span(i)[0])
        return positions[first:last]

    def span_of_pieces(self, first: int, last: int) -> Span:
        """Characters from the token at `first` through the token at `last`, both included: text[start:end]."""
        part = self.part_of(first)
        require(
            part is not None and part == self.part_of(last) and first <= last,
            f"Tokens {first} to {last} are not a run inside one text; the texts lie at {list(self.parts)}.",
            BadInput,
        )
        return self._span(first)[0], self._span(last)[1]

    def span_of_word(self, word: int, part: int = 0) -> Span | None:
        """Characters of a word; None if it has no pieces here."""
        pieces = self.pieces_of_word(word, part)
        return self.span_of_pieces(pieces[0], pieces[-1]) if pieces else None

    def _positions(self, part: int) -> range:
        require(
            0 <= part < len(self.parts), f"Part {part} asked of an encoding of {len(self.parts)} text(s).", BadInput
        )
        return self.parts[part]

    def _word(self, position: int) -> int:
        word = self.words[position]
        assert word is not None, "every token of a part has a word"  # noqa: S101
        return word

    def _span(self, position: int) -> Span:
        span = self.offsets[position]
        assert span is not None, "every token of a part has offsets"  # noqa: S101
        return span


KINDS = ("none", "some", "all")  # names of the kinds, in order


def capitals_of(text: str, offsets: list[Span], words: list[int]) -> list[int]:
    """For each piece, the kind of its word: 0 without capitals, 1 with some, 2 of nothing else."""
    found: list[int] = []
    for _, group in groupby(zip(words, offsets, strict=True), key=lambda piece: piece[0]):
        spans = [span for _, span in group]
        found += [_kind(text[spans[0][0] : spans[-1][1]])] * len(spans)
    return found


def _kind(word: str) -> int:
    if word == word.lower():
        return 0
    return 2 if len(word) > 1 and word.isupper() else 1
