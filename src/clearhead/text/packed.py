"""The pieces of many texts end to end in flat arrays, so that Python's own time does not grow with every piece.

`Pieces` and `Encoding` are what a person looks at, one text at a time; whoever reads thousands of texts takes these.
It is imported where that happens, since `clearhead.text` without numpy starts sooner.
"""

# B texts or inputs · P pieces of all texts together · N tokens of all inputs together

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clearhead.text.chunking import Chunks
from clearhead.text.encoding import Special, Template, TemplateItems, kind_of_capitals
from clearhead.text.windows import check_overlap
from clearhead.text.windows import spans as window_spans

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_ZERO, _NONE, _NO_SPANS = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
_LAST_SPACE = 0x3000  # the highest code point of a character that is white space


@dataclass(frozen=True, slots=True)
class PackedPieces:
    """The pieces of text b, without special tokens, are ids[starts[b] : starts[b + 1]], and so in the other arrays.

    `spans` count characters of the piece's own text, `words` its words; both are empty where only ids were asked for.
    `capitals` are there where the tokenizer tells them.
    """

    ids: Ints  # (P,)
    starts: Ints  # (B + 1,)
    spans: Ints  # (P, 2)
    words: Ints  # (P,)
    capitals: Ints | None = None  # (P,)

    @classmethod
    def of(cls, encoded: Sequence[tokenizers.Encoding], *, spans: bool) -> Self:
        """Take over what the library gives; spans and words only where they are wanted, since they take longest."""
        if len(encoded) == 1:  # somebody may be waiting for it
            (one,) = encoded
            ids, starts = np.array(one.ids, np.int64), np.array((0, len(one)))
            if not spans:
                return cls(ids, starts, _NO_SPANS, _NONE)
            return cls(ids, starts, np.array(one.offsets, np.int64).reshape(-1, 2), np.array(one.word_ids, np.int64))
        starts = starts_of(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        total = int(starts[-1])

        def column(name: str) -> Iterator[Any]:
            # one list at a time: many at once are what the garbage collector looks through again and again
            return chain.from_iterable(map(attrgetter(name), encoded))

        ids = np.fromiter(column("ids"), np.int64, total)
        if not spans:
            return cls(ids, starts, _NO_SPANS, _NONE)
        places = np.fromiter(chain.from_iterable(column("offsets")), np.int64, 2 * total)
        return cls(ids, starts, places.reshape(-1, 2), np.fromiter(column("word_ids"), np.int64, total))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Ints:
        """How many pieces each text has: (B,)."""
        return self.starts[1:] - self.starts[:-1]  # np.diff takes five times as long, which one text alone would feel

    @property
    def owners(self) -> Ints:
        """The text of each piece: (P,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    def opens_word(self) -> Bools:
        """Whether a piece is the first of its word: (P,)."""
        opens = np.ones(len(self.words), np.bool_)
        opens[1:] = self.words[1:] != self.words[:-1]
        opens[self.starts[:-1][self.counts > 0]] = True
        return opens

    @classmethod
    def joined_texts(cls, several: "Sequence[PackedPieces]") -> Self:
        """The texts of all, one after the other."""
        capitals = [one.capitals for one in several if one.capitals is not None]
        return cls(
            np.concatenate([one.ids for one in several]),
            starts_of(np.concatenate([one.counts for one in several])),
            np.concatenate([one.spans for one in several]),
            np.concatenate([one.words for one in several]),
            np.concatenate(capitals) if capitals else None,
        )

    def take(self, texts: Ints) -> "PackedPieces":
        """Some of the texts, in any order."""
        counts = self.counts[texts]
        places = ranges(self.starts[texts], counts)
        capitals = None if self.capitals is None else self.capitals[places]
        return PackedPieces(self.ids[places], starts_of(counts), self.spans[places], self.words[places], capitals)

    def joined(self, plans: Sequence[Chunks]) -> Self:
        """The pieces of whole texts, where these are of their chunks, one after the other."""
        parts = np.array([len(plan.texts) for plan in plans])
        first = starts_of(parts)  # chunk of each text
        starts = self.starts[first]
        if not len(self.words):
            return replace(self, starts=starts)
        counts = self.counts
        spans = self.spans + np.repeat(np.array([start for plan in plans for start in plan.starts]), counts)[:, None]
        # the words of a chunk are numbered on from those before it in its text
        last = self.words[np.maximum(self.starts[1:] - 1, 0)]
        seen = starts_of(np.where(counts > 0, last + 1, 0))
        words = self.words + np.repeat(seen[:-1] - np.repeat(seen[first[:-1]], parts), counts)
        for plan, start, stop in zip(plans, starts[:-1], starts[1:], strict=True):
            if plan.gaps:
                left_out = np.array([0, *plan.left_out])
                spans[start:stop] += left_out[np.searchsorted(plan.gaps, spans[start:stop], side="right")]
        return replace(self, starts=starts, spans=spans, words=words)

    def without_spaces(self, texts: Sequence[str]) -> Self:
        """Spans without the white space in front that some families count to the word: answers are slices of words."""
        characters, begins = code_points(texts)
        solid = np.flatnonzero(~_is_space(characters))
        shift = np.repeat(begins[:-1], self.counts)  # where each piece's text begins
        ends = self.spans[:, 1] + shift
        next_solid = np.append(solid, len(characters))[np.searchsorted(solid, self.spans[:, 0] + shift)]
        return replace(self, spans=np.stack([np.minimum(next_solid, ends) - shift, self.spans[:, 1]], 1))

    def with_capitals(self, texts: Sequence[str]) -> Self:
        """Tell for each piece the kind of its word in CAPITALS."""
        characters, begins = code_points(texts)
        opens = np.flatnonzero(self.opens_word())
        owners = self.owners[opens]
        starts = self.spans[opens, 0]
        ends = self.spans[np.append(opens[1:], len(self.ids)) - 1, 1] if len(opens) else starts
        upper, lower = (
            starts_of((characters >= ord(first)) & (characters <= ord(last))) for first, last in ("AZ", "az")
        )
        first, stop = begins[owners] + starts, begins[owners] + ends
        uppers, lowers = upper[stop] - upper[first], lower[stop] - lower[first]
        kinds = np.where(uppers <= 0, 0, np.where((lowers <= 0) & (ends - starts > 1), 2, 1))
        if not all(map(str.isascii, texts)):  # other alphabets have letters that only Python knows
            ascii_only = np.fromiter(map(str.isascii, texts), np.bool_, len(texts))
            for unit in np.flatnonzero(~ascii_only[owners]).tolist():
                kinds[unit] = kind_of_capitals(texts[owners[unit]][starts[unit] : ends[unit]])
        return replace(self, capitals=np.repeat(kinds, np.diff(np.append(opens, len(self.ids)))))

    def of_words(self, sentences: Sequence[Sequence[str]]) -> Self:
        """The same with `words` that are indices into the words given, which were joined by spaces."""
        sizes = np.fromiter(map(len, sentences), np.int64, len(sentences))
        lengths = np.fromiter((len(word) + 1 for words in sentences for word in words), np.int64, int(sizes.sum()))
        ends, before = starts_of(lengths), starts_of(sizes)
        begins = ends[before[:-1]]  # of each text, where each of the words before takes a space more
        places = self.spans[:, 0] + np.repeat(begins, self.counts)
        # a piece that starts at the space before a word belongs to that word
        found = np.searchsorted(ends[1:] - 1, places, side="right") - np.repeat(before[:-1], self.counts)
        return replace(self, words=np.minimum(found, np.repeat(sizes - 1, self.counts)))


@dataclass(frozen=True, slots=True)
class PackedWindows:
    """Windows over many texts: a row for each, those of a text one after the other, every text with one at least.

    A window holds pieces first … first + count - 1 of its text, whose pieces begin at `start` among all, and is the
    best one (see `windows.Window`) for pieces best … best + weight - 1.
    """

    text: Ints  # (B,)
    start: Ints
    first: Ints
    count: Ints
    best: Ints
    weight: Ints

    @property
    def held(self) -> "PieceRanges":
        """The pieces of each window among all."""
        return PieceRanges(self.start + self.first, self.count)

    def per_text(self) -> Ints:
        """Where the windows of each text begin, and where the last ones end: (texts + 1,)."""
        return starts_of(np.bincount(self.text))


@dataclass(frozen=True, slots=True)
class PieceRanges:
    """For each of many inputs the pieces first … first + count - 1 among all."""

    first: Ints  # (B,)
    count: Ints  # (B,)


@dataclass(frozen=True, slots=True)
class Sequences:
    """What a network reads: input b is ids[starts[b] : starts[b + 1]].

    `segments` are None where all are 0. Text k of input b begins at its token parts[k][b].
    """

    ids: Ints  # (N,)
    starts: Ints  # (B + 1,)
    segments: Ints | None = None  # (N,)
    parts: tuple[Ints, ...] = ()  # (B,) each

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]], segments: Sequence[Sequence[int]]) -> Self:
        """Lay inputs end to end; one without segments has 0 everywhere."""
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        total, kinds = int(lengths.sum()), None
        if any(map(any, segments)):
            filled = (one or [0] * len(own) for one, own in zip(segments, ids, strict=True))
            kinds = np.fromiter(chain.from_iterable(filled), np.int64, total)
        return cls(np.fromiter(chain.from_iterable(ids), np.int64, total), starts_of(lengths), kinds)

    @classmethod
    def joined(cls, several: "Sequence[Sequences]") -> Self:
        """The inputs of all, one after the other; where the texts begin in them is not kept."""
        ids = np.concatenate([one.ids for one in several])
        kinds = [np.zeros_like(one.ids) if one.segments is None else one.segments for one in several]
        return cls(ids, starts_of(np.concatenate([one.lengths for one in several])), np.concatenate(kinds))

    def take(self, order: Ints) -> "Sequences":
        """These inputs, in another order."""
        lengths = self.lengths[order]
        places = ranges(self.starts[order], lengths)
        segments = None if self.segments is None else self.segments[places]
        return Sequences(self.ids[places], starts_of(lengths), segments, tuple(part[order] for part in self.parts))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ints:
        """How many tokens each input has: (B,)."""
        return self.starts[1:] - self.starts[:-1]


def packed_spans(starts: Ints, counts: Ints, room: int | Ints, overlap: int | Ints | None = None) -> PackedWindows:
    """Cut many texts at once, each as `windows.spans` does: `counts` pieces from `starts` on."""
    if isinstance(room, int):
        check_overlap(room, room // 3 if overlap is None else int(overlap))
    if len(counts) == 1 and counts[0] <= room:
        return PackedWindows(_ZERO, starts, _ZERO, counts, _ZERO, counts)
    texts, zeros, long = np.arange(len(counts)), np.zeros_like(counts), counts > room
    if not long.any():
        return PackedWindows(texts, starts, zeros, counts, zeros, counts)
    rooms = np.broadcast_to(room, counts.shape)
    overlaps = rooms // 3 if overlap is None else np.broadcast_to(overlap, counts.shape)
    several = [
        [(text, start, held.start, len(held), best.start, len(best)) for held, best in window_spans(count, own, shared)]
        for text, start, count, own, shared in zip(
            *(column[long].tolist() for column in (texts, starts, counts, rooms, overlaps)), strict=True
        )
    ]
    sizes = np.ones_like(counts)
    sizes[long] = [len(one) for one in several]
    rows = np.repeat(np.stack([texts, starts, zeros, counts, zeros, counts], 1), sizes, 0)
    rows[np.repeat(long, sizes)] = np.concatenate(several)
    return PackedWindows(*np.ascontiguousarray(rows.T))


def wrap_packed(template: Template, pieces: PackedPieces, *texts: PieceRanges) -> Sequences:
    """Put the special tokens round one text or two of each input: `Template.wrap` for all inputs at once."""
    pair = len(texts) > 1
    items = template.pair if pair else template.single
    counts = texts[0].count + texts[1].count if pair else texts[0].count
    if len(counts) == 1 and pieces.capitals is None:
        return _wrap_one(items, pieces, texts)
    starts = starts_of(counts + template.specials(pair=pair))
    ids = np.empty(starts[-1], np.int64)
    segments = np.zeros_like(ids) if pieces.capitals is not None or any(item.segment for item in items) else None
    at, parts = starts[:-1].copy(), list[Ints]()
    for item in items:
        if isinstance(item, Special):
            ids[at] = item.id
            if segments is not None and pieces.capitals is None:
                segments[at] = item.segment
            at += 1
        else:
            text = texts[item.part]
            parts.append(at - starts[:-1])
            places, taken = ranges(at, text.count), ranges(text.first, text.count)
            ids[places] = pieces.ids[taken]
            if segments is not None:
                segments[places] = item.segment if pieces.capitals is None else pieces.capitals[taken]
            at += text.count
    return Sequences(ids, starts, segments, tuple(parts))


def _wrap_one(items: TemplateItems, pieces: PackedPieces, texts: Sequence[PieceRanges]) -> Sequences:
    """`wrap_packed` for a single input, which somebody may be waiting for."""
    ids, segments, parts = list[Any](), list[tuple[int, int]](), list[Ints]()
    length = 0
    for item in items:
        if isinstance(item, Special):
            count = 1
            ids.append((item.id,))
        else:
            first, count = int(texts[item.part].first[0]), int(texts[item.part].count[0])
            ids.append(pieces.ids[first : first + count])
            parts.append(np.array((length,)))
        segments.append((item.segment, count))
        length += count
    kinds = [np.full(count, segment) for segment, count in segments] if any(kind for kind, _ in segments) else None
    return Sequences(
        np.concatenate(ids), np.array((0, length)), None if kinds is None else np.concatenate(kinds), tuple(parts)
    )


def starts_of(counts: NDArray[np.generic]) -> Ints:
    """Where each of several parts of these sizes begins, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.int64)
    counts.cumsum(out=starts[1:])  # np.cumsum finds this method in twice the time
    return starts


def ranges(firsts: Ints, counts: Ints) -> Ints:
    """The numbers first … first + count - 1 of each, one after the other."""
    if len(counts) == 1:
        return np.arange(firsts[0], firsts[0] + counts[0])
    starts = starts_of(counts)
    return np.repeat(firsts - starts[:-1], counts) + np.arange(starts[-1])


def code_points(texts: Sequence[str]) -> tuple[NDArray[np.uint32], Ints]:
    """The code points of all texts end to end, and where each text begins among them."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return points, starts_of(np.fromiter(map(len, texts), np.int64, len(texts)))


@cache
def _spaces() -> Bools:
    return np.array([chr(point).isspace() for point in range(_LAST_SPACE + 1)] + [False])


def _is_space(characters: NDArray[np.uint32]) -> Bools:
    return _spaces()[np.minimum(characters, _LAST_SPACE + 1)]
