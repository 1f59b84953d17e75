"""The special tokens a checkpoint puts round one text or two, found by looking at what its post-processor does."""

from dataclasses import dataclass
from typing import Self

import tokenizers

from clearhead.errors import BadCheckpoint
from clearhead.text.encoding import Encoding, Pieces, Span


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


Layout = tuple[Special | Slot, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """How inputs of one text and of two texts are laid out."""

    single: Layout
    pair: Layout

    @classmethod
    def probe(cls, library: tokenizers.Tokenizer) -> Self:
        """Encode a short word alone and as a pair, and keep what came with it."""
        word = _some_word(library)
        return cls(_layout(library.encode(word)), _layout(library.encode(word, word)))

    @property
    def segments(self) -> bool:
        """Whether the two texts of a pair are in different segments."""
        # without a post-processor the library numbers them too, as no model does that joins texts without a token
        told_apart = any(isinstance(item, Special) for item in self.pair)
        return told_apart and len({item.segment for item in self.pair}) > 1

    @property
    def round_one(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
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


def _some_word(library: tokenizers.Tokenizer) -> str:
    try:
        if library.encode("a", add_special_tokens=False).ids:
            return "a"
        return next(word for word in library.get_vocab() if library.encode(word, add_special_tokens=False).ids)
    except Exception as error:  # the library raises plain Exception
        reason = "no word gives a token" if isinstance(error, StopIteration) else error
        raise BadCheckpoint(f"The tokenizer cannot encode ({reason}); its files are incomplete or damaged.") from None


def _layout(encoded: tokenizers.Encoding) -> Layout:
    items: list[Special | Slot] = []
    for i, part in enumerate(encoded.sequence_ids):
        item = (
            Special(encoded.ids[i], encoded.tokens[i], encoded.type_ids[i])
            if part is None
            else Slot(part, encoded.type_ids[i])
        )
        if isinstance(item, Special) or item not in items:
            items.append(item)
    return tuple(items)
