"""What a model reads for a text: the pieces of the text, the special tokens round them, where each piece stands."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Self

import tokenizers

from clearhead.errors import BadCheckpoint, BadInput, require

Span = tuple[int, int]
_TRIED = 1000  # words of a vocabulary, in search of one that gives a token

# kinds of words by their capitals, which a vocabulary of small letters loses: none, some (Paris, iPhone), all (NATO)
CAPITALS = ("none", "some", "all")


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of one text, without special tokens; offsets count characters of the text as the user gave it."""

    ids: list[int]
    tokens: list[str]
    offsets: list[Span]
    words: list[int]
    capitals: list[int] | None = None  # an index into CAPITALS for each piece, where the tokenizer tells them

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

    `segments` are the token_type_ids that the model sees (all 0 in RoBERTa): the `sentences` as the family numbers
    them, or the kinds of capitals, where the tokenizer tells them. `parts` holds the token positions of each text, in
    order, and is what the methods below go by. Offsets count characters of that part's own text.
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

    def pieces_of_span(self, start: int, end: int, part: int = 0) -> range:
        """Positions of the tokens that share at least one character with text[start:end]; may be empty."""
        count = len(self.parts)
        require(0 <= part < count, f"Part {part} asked of an encoding of {count} text(s).", BadInput)
        positions = self.parts[part]
        spans = [span for span in self.offsets[positions.start : positions.stop] if span is not None]
        found = touching(spans, start, end)
        return positions[found.start : found.stop]


@dataclass(frozen=True, slots=True)
class Special:
    """A token that is always there."""

    id: int
    token: str
    segment: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a text."""

    part: int
    segment: int


TemplateItems = tuple[Special | Slot, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """The special tokens that a checkpoint puts round one text or two, found by looking at what its library does."""

    single: TemplateItems
    pair: TemplateItems

    @classmethod
    def probe(cls, library: tokenizers.Tokenizer) -> Self:
        """Encode a short word alone and as a pair, and keep what came with it."""
        word = _some_word(library)
        found = cls(_items(library.encode(word)), _items(library.encode(word, word)))
        for items, texts in ((found.single, 1), (found.pair, 2)):
            slots = [item.part for item in items if isinstance(item, Slot)]
            message = f"The tokenizer puts {len(slots)} texts where {texts} belong; its files are damaged."
            require(slots == list(range(texts)), message, BadCheckpoint)
        return found

    @property
    def segments(self) -> bool:
        """Whether the two texts of a pair are in different segments."""
        # without a post-processor the library numbers them too, as no model does that joins texts without a token
        told_apart = any(isinstance(item, Special) for item in self.pair)
        return told_apart and len({item.segment for item in self.pair}) > 1

    @property
    def around_text(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before one text and after it."""
        place = next(i for i, item in enumerate(self.single) if isinstance(item, Slot))
        sides = self.single[:place], self.single[place:]
        before, after = (tuple(item.id for item in side if isinstance(item, Special)) for side in sides)
        return before, after

    def specials(self, *, pair: bool) -> int:
        """How many special tokens an input has."""
        return sum(isinstance(item, Special) for item in (self.pair if pair else self.single))

    def wrap(self, first: Pieces, second: Pieces | None = None) -> Encoding:
        """Put the special tokens round one text or two."""
        texts = (first,) if second is None else (first, second)
        parts = [range(0)] * len(texts)
        ids: list[int] = []
        sentences: list[int] = []
        capitals: list[int] = []
        tokens: list[str] = []
        offsets: list[Span | None] = []
        words: list[int | None] = []
        for item in self.single if second is None else self.pair:
            if isinstance(item, Special):
                ids.append(item.id)
                sentences.append(item.segment)
                capitals.append(0)
                tokens.append(item.token)
                offsets.append(None)
                words.append(None)
            else:
                pieces = texts[item.part]
                parts[item.part] = range(len(ids), len(ids) + len(pieces))
                ids.extend(pieces.ids)
                sentences.extend([item.segment] * len(pieces))
                capitals.extend(pieces.capitals or ())
                tokens.extend(pieces.tokens)
                offsets.extend(pieces.offsets)
                words.extend(pieces.words)
        segments = sentences if first.capitals is None else capitals
        return Encoding(ids, segments, sentences, tokens, offsets, words, tuple(parts))

    def wrap_ids(self, pieces: list[int]) -> list[int]:
        """Put the special tokens round the ids of one text: all that a vector needs."""
        ids: list[int] = []
        for item in self.single:
            ids.extend([item.id] if isinstance(item, Special) else pieces)
        return ids

    def wrap_segments(self, pieces: int) -> list[int]:
        """The segments of what `wrap_ids` gives for so many pieces; nothing where all are in the first."""
        if not any(item.segment for item in self.single):
            return []
        counts = [(item.segment, 1 if isinstance(item, Special) else pieces) for item in self.single]
        return [segment for segment, count in counts for _ in range(count)]


def room_for(template: Template, length: int, beside: int | None = None) -> int:
    """Pieces of a text that fit a window of `length` tokens, alone or beside a text of `beside` pieces; may be < 1."""
    return length - template.specials(pair=beside is not None) - (beside or 0)


def _some_word(library: tokenizers.Tokenizer) -> str:
    for word in ("a", *islice(library.get_vocab(), _TRIED)):
        if library.encode(word, add_special_tokens=False).ids:
            return word
    raise BadCheckpoint("The tokenizer cannot encode (no word gives a token); its files are incomplete or damaged.")


def _items(encoded: tokenizers.Encoding) -> TemplateItems:
    items: list[Special | Slot] = []
    columns = zip(encoded.sequence_ids, encoded.ids, encoded.tokens, encoded.type_ids, strict=True)
    for part, token_id, token, segment in columns:
        if part is None:
            items.append(Special(token_id, token, segment))
        elif Slot(part, segment) not in items:
            items.append(Slot(part, segment))
    return tuple(items)


def touching(spans: Sequence[Span], start: int, end: int) -> range:
    """Which of these spans, in order, share at least one character with text[start:end]; may be empty."""
    first = bisect_right(spans, start, key=lambda span: span[1])
    return range(first, bisect_left(spans, end, lo=first, key=lambda span: span[0]))


def capitals_of(text: str, offsets: list[Span], words: list[int]) -> list[int]:
    """For each piece, the kind of its word in CAPITALS."""
    found: list[int] = []
    for _, group in groupby(zip(words, offsets, strict=True), key=lambda piece: piece[0]):
        spans = [span for _, span in group]
        found += [kind_of_capitals(text[spans[0][0] : spans[-1][1]])] * len(spans)
    return found


def kind_of_capitals(word: str) -> int:
    """Which of CAPITALS a word has."""
    if word == word.lower():
        return 0
    return 2 if len(word) > 1 and word.isupper() else 1
