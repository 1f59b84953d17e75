"""Labels of words, and the entities they form, as slices of the text."""

# P pieces of the whole text · L labels

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import cut_by_cost
from clearhead.data.tags import OUTSIDE, are_plain, entity_type
from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.pipelines.results import Labelled as Labelled
from clearhead.pipelines.results import LabelledTable
from clearhead.pipelines.results import Tagged as Tagged
from clearhead.pipelines.runner import Prepared, per_token, read, read_windows, through
from clearhead.text import Tokenizer, Window
from clearhead.text.encoding import Span, room_for
from clearhead.text.packed import Bools, Ints, PackedPieces, code_points, packed_spans, ranges, wrap_packed
from clearhead.text.windows import cut

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

_OPENING = re.compile(r"[BSU]-(?=.)")  # an entity starts here, whatever stands before


def entities_of(text: str, parts: Sequence[Labelled]) -> tuple[Labelled, ...]:
    """Join neighbours of one type into entities, each with the mean of their scores.

    As in transformers, an entity may open with I-, and labels without a prefix join their equals.
    """
    names = list(dict.fromkeys(part.label for part in parts))
    labels = np.array([names.index(part.label) for part in parts], np.int64)
    first = np.arange(len(parts)) == 0
    spans = np.array([(part.start, part.end) for part in parts], np.int64).reshape(-1, 2)
    scores = np.array([part.score for part in parts])
    rows, _ = _entities(first, spans, labels, scores, names)
    return LabelledTable(text, _types(names), rows).labelled()


def _types(names: Sequence[str]) -> list[str]:
    return [entity_type(name) for name in names]


def _entities(
    first: Bools, spans: Ints, labels: Ints, scores: NDArray[np.floating], names: Sequence[str]
) -> tuple[NDArray[np.void], Ints]:
    """The entities of many texts, whose `first` parts are marked: their rows, and the number of the text of each."""
    if not len(labels):
        return np.empty(0, _ROW), np.empty(0, np.int64)
    types = _types(names)
    kinds = np.array([types.index(one) for one in types])[labels]
    begins = first | np.array([_OPENING.match(name) is not None for name in names])[labels]
    begins[1:] |= kinds[1:] != kinds[:-1]
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(labels))
    inside = np.array([one != OUTSIDE for one in types])[labels[starts]]
    # a piece may be nothing but a space, which belongs to no word: no entity
    inside &= spans[starts, 0] < spans[stops - 1, 1]
    # sums of single floats are exact in double ones, whatever stands beside them
    means = np.add.reduceat(scores, starts, dtype=np.float64) / (stops - starts)
    rows = _rows_of(spans[starts, 0], spans[stops - 1, 1], labels[starts], means)
    return rows[inside], (np.cumsum(first) - 1)[starts[inside]]


def runs_of_one_type(labels: Sequence[str], type_of: Callable[[str], str], opens: Callable[[str], bool]) -> list[slice]:
    """Where neighbours have labels of one type; a label that opens an entity begins a run, whatever stands before."""
    types = [type_of(label) for label in labels]
    starts = [i for i, label in enumerate(labels) if i == 0 or opens(label) or types[i] != types[i - 1]]
    return [slice(start, end) for start, end in pairwise([*starts, len(labels)])]


_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # U.S, before its last full stop
_CLITICS = {"s", "t", "d", "m", "re", "ve", "ll"}  # it's, don't: words of their own, with their apostrophe
_LONGEST_CLITIC = max(map(len, _CLITICS))
_NEGATION = re.compile(r"n['’]t\b", re.IGNORECASE)  # as in do n't
_APOSTROPHES, _HYPHENS, _POINTS = {"'", "’"}, {"-", "&", "/", "_"}, {".", ",", ":"}
_NEAR = 8  # characters that are looked at before and behind, so that time grows with the length of a text and no faster
_LONGEST = 100  # characters of a word, for the same reason
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # each is a word already


def join_words(text: str, spans: Sequence[Span], words: Sequence[int]) -> list[int]:
    """Number the words anew, for each piece of a text: U.S., C. Cairns, O'Brien, AT&T and 12:30 are not parted."""
    pieces = PackedPieces(np.array(words), np.array([0, len(words)]), np.array(spans).reshape(-1, 2), np.array(words))
    return (np.cumsum(_opens_joined_word([text], pieces)) - 1).tolist()


# Signs that are words of their own wherever they stand (1), and those that hold nothing together at the end of a word
# (2): of these, which most signs are, nothing need be asked.
_SIGNS = {**dict.fromkeys('!"#$%()*+;<=>?@[\\]^`{|}~', 1), **dict.fromkeys(",:-&/_", 2)}
_ASCII = [chr(point) for point in range(128)]
_KINDS = np.array([*(_SIGNS.get(one, 0) for one in _ASCII), 0], np.int8)
# of a character beyond ASCII, which stands last in each table, all may be so
_MAY_OPEN_WORD, _MAY_BE_SIGN, _MAY_BE_APOSTROPHE, _MAY_BE_DIGIT = (
    np.array([*map(is_so, _ASCII), True])
    for is_so in (str.isalnum, lambda one: not one.isalnum(), _APOSTROPHES.__contains__, str.isdigit)
)
_IS_HYPHEN = np.array([*map(_HYPHENS.__contains__, _ASCII), False])


def _opens_joined_word(texts: Sequence[str], pieces: PackedPieces) -> Bools:
    """Whether a piece is the first of its word, as `join_words` has them, for many texts: (P,)."""
    opens = pieces.opens_word()
    if not len(opens):
        return opens
    units = np.flatnonzero(opens)  # the tokenizer's words
    owners = pieces.owners[units]
    starts, ends = pieces.spans[units, 0], pieces.spans[np.append(units[1:], len(opens)) - 1, 1]
    touches = np.zeros(len(units) + 1, np.bool_)  # the unit before it, without a space between them
    touches[1:-1] = (owners[1:] == owners[:-1]) & (starts[1:] == ends[:-1])
    may, sure = _may_hold(texts, owners, starts, ends, touches)
    opens[units[sure]] = False
    asked = np.flatnonzero(touches[:-1] & may & ~sure)
    until = np.where(touches[asked + 1], np.append(ends, 0)[asked + 1], ends[asked])
    # of the units before these: the last one that is not sure to belong to the one before it
    heads = np.maximum.accumulate(np.where(sure, 0, np.arange(len(units))))[asked - 1]
    held, begin = -1, -1  # the last unit asked that belongs to the word before, and where that word begins
    lasts = (starts[asked - 1], ends[asked - 1])
    columns = (asked, heads, owners[asked], starts[heads], *lasts, starts[asked], ends[asked], until)
    for i, head, owner, first, last, before, start, end, stop in _rows(*columns):
        text, single = texts[owner], head == i - 1 != held
        begin = begin if head == held else first
        if _holds(text, (begin, before), (start, end), text[last:before], text[end:stop], single):
            opens[units[i]], held = False, i
    return opens


def _may_hold(texts: Sequence[str], owners: Ints, starts: Ints, ends: Ints, touches: Bools) -> tuple[Bools, Bools]:
    """Where `_holds` need be asked of a unit that touches the one before: all that it may say yes to, and few others.

    And where it is sure to say yes. Of many texts, most signs are told by their characters alone, for all at once.
    """
    points, begins = code_points(texts)
    codes = np.minimum(np.append(points, (0, 0)), len(_ASCII))  # two more, for what stands before a first character
    places, full = begins[owners] + starts, ends > starts
    code = np.where(full, codes[places], 0)
    before, earlier = codes[places - 1], codes[places - 2]  # of the first units of a text, which touch none, anything
    alone = ends - starts == 1
    kind = np.where(alone, _KINDS[code], 0)
    word, sign = _MAY_OPEN_WORD[code], _MAY_BE_SIGN[code]
    after_word, before_word = touches[:-1] & np.roll(word, 1), touches[1:] & np.roll(word, -1)
    initial = np.roll(alone, 1) | (earlier == ord("."))
    opens_sign = after_word & (before_word | ((code == ord(".")) & (initial | _MAY_BE_DIGIT[before])))
    negated = _MAY_BE_APOSTROPHE[code] & ((before == ord("n")) | (before == ord("N")))
    joins = (sign & opens_sign) | negated
    clitic = _MAY_BE_APOSTROPHE[before] & (ends - starts <= _LONGEST_CLITIC)
    may = joins | clitic | (word & np.roll(sign & joins, 1))
    may &= (kind != 1) & (np.roll(kind, 1) != 1) & (touches[1:] | (kind != 2))
    # a hyphen between two words, a full stop before a small letter, and the word after either
    known = word & (code < len(_ASCII))
    small = np.roll(known & (code >= ord("a")), -1)
    between = touches[:-1] & touches[1:] & np.roll(known, 1) & np.roll(known, -1)
    held = between & alone & (_IS_HYPHEN[code] | ((code == ord(".")) & small))
    # no word is too long where nothing that it may belong to is
    runs = np.maximum.accumulate(np.where(touches[:-1], 0, np.arange(len(starts))))
    near = starts - starts[runs] <= _LONGEST
    return may, near & (held | np.roll(held, 1))


def _rows(*columns: Ints) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _holds(text: str, word: Span, unit: Span, last: str, after: str, single: bool) -> bool:
    """Whether a unit belongs to the word that goes up to it.

    `last` is that word's last unit, its only one if it is `single`, and `after` the unit that follows without a space.
    """
    (first, before), (start, end) = word, unit
    if before - first > _LONGEST:
        return False
    # most words are ruled out by their first letter, in a fraction of the time
    if text.startswith(("n", "N"), first) and (negated := _NEGATION.match(text, first)) and end <= negated.end():
        return True
    sign, written = text[start:end], text[first:before]
    if _is_word(sign):
        clitic = last in _APOSTROPHES and sign.lower() in _CLITICS
        return clitic or (not single and not _is_word(last))
    if not _is_word(last):
        return False
    follows = text[end : end + _NEAR].lstrip()
    if sign == "." and written.isdigit() and _opens_a_line(text, first):
        return bool(follows)  # 1. of a list
    if sign == "." and _INITIALS.fullmatch(written):
        return "." in written or _is_word(after) or (written.isupper() and follows[:1].isupper())
    if not _is_word(after):
        return False
    if sign in _APOSTROPHES:
        return after.lower() not in _CLITICS
    if sign in _POINTS:
        return (written[-1].isdigit() and after[0].isdigit()) or (sign == "." and after[0].islower())
    return sign in _HYPHENS


# where Universal Dependencies part what is written as one word: do|n't, can|not
_CONTRACTION = re.compile(rf"(?<=\w)(?={_NEGATION.pattern})|(?<=\bcan)(?=not\b)", re.IGNORECASE)


def _part_contractions(tokenizer: Tokenizer, texts: Sequence[str]) -> PackedPieces:
    """The pieces of texts with contractions read as two words, which is how taggers of parts of speech learn them."""
    pieces = tokenizer.packed_batch([_CONTRACTION.sub(" ", text) for text in texts])
    for text, start, stop in zip(texts, pieces.starts[:-1], pieces.starts[1:], strict=True):
        if cuts := [found.start() for found in _CONTRACTION.finditer(text)]:
            # where a character stood before a space was put in at each cut
            pieces.spans[start:stop] -= np.searchsorted(np.array(cuts) + np.arange(len(cuts)), pieces.spans[start:stop])
    return pieces


def _opens_a_line(text: str, place: int) -> bool:
    before = text[max(place - _NEAR, 0) : place].rstrip(" \t")
    return before.endswith("\n") or (not before and place < _NEAR)


def _is_word(part: str) -> bool:
    return part[:1].isalnum() and (part.isascii() or not _IDEOGRAPHS.match(part))


Strategy = Literal["simple", "first", "average", "max"]


def tag(
    model: "Model", texts: Iterable[str | Sequence[str]], strategy: Strategy, progress: Progress | None
) -> Iterator[Tagged]:
    """Tag texts, each a string or a list of words, in order; long ones in windows, each piece where it sees most.

    A word's label is its first piece's. Entities group pieces ("simple"), or words whose label is that of the first
    piece ("first"), of the mean of the pieces ("average"), or of the surest piece ("max"). Words are those given, or
    the tokenizer's with U.S., O'Brien and AT&T joined, as taggers learn them; transformers guesses them piece by piece.
    Plain tags are those of parts of speech, for which don't is two words, do and n't.
    Of a model that was taught by first pieces (`Description.whole_words`), the others say nothing of their own: there
    all strategies are "first".
    """
    known = get_args(Strategy)
    require(strategy in known, f"aggregation_strategy={strategy!r} is not known; choose {', '.join(known)}", BadInput)
    if model.checkpoint.description.whole_words:
        strategy = "first"
    plain = are_plain(model.labels or ())
    forward = through(model.network, "tags")
    tokenizer, room = model.tokenizer, room_for(model.tokenizer.template, model.encoder.max_length)

    def prepare(chunk: list[Given]) -> Prepared[_Read]:
        pieces = _pieces(tokenizer, chunk, parted=plain)
        windows = packed_spans(pieces.starts[:-1], pieces.counts, room)
        return Prepared(windows, wrap_packed(tokenizer.template, pieces, windows.held), _Read(chunk, pieces))

    found = read(model.network, forward, per_token, texts, prepare, progress=progress)
    return (tagged for ready, rows in found for tagged in _results(ready, rows, model.labels, strategy, plain))


Given = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class _Read:
    given: list[Given]
    pieces: PackedPieces


def _pieces(tokenizer: Tokenizer, chunk: Sequence[Given], *, parted: bool) -> PackedPieces:
    """The pieces of texts and of lists of words, in order; the contractions of texts `parted` if their words are."""
    words = [given for given in chunk if not isinstance(given, str)]
    texts = [given for given in chunk if isinstance(given, str)]
    if not words:
        return _part_contractions(tokenizer, texts) if parted else tokenizer.packed_batch(texts)
    split = tokenizer.packed_words(words)
    if not texts:
        return split
    plain = _part_contractions(tokenizer, texts) if parted else tokenizer.packed_batch(texts)
    order = np.argsort([not isinstance(given, str) for given in chunk], kind="stable")  # texts first
    return PackedPieces.joined_texts([plain, split]).take(np.argsort(order, kind="stable"))


# a word or an entity in the table that `Tagged` makes objects of when they are looked at
_ROW = np.dtype([("start", np.int32), ("end", np.int32), ("label", np.int32), ("score", np.float64)])
_BLOCK = 16_384  # pieces whose results are made at a time: few enough that they do not fill the memory


def _results(
    ready: Prepared[_Read], rows: Tensor, labels: Sequence[str] | None, strategy: Strategy, plain: bool
) -> Iterator[Tagged]:
    """The logits of all tokens (N, L) as results, in the order of the texts."""
    windows, sequences, read = ready.windows, ready.sequences, ready.held
    # each piece's row is that of the window where it sees most
    places = ranges(sequences.starts[:-1] + sequences.parts[0] + windows.best - windows.first, windows.weight)
    for texts in cut_by_cost(np.arange(len(read.given)), read.pieces.counts, _BLOCK):
        own = slice(read.pieces.starts[texts[0]], read.pieces.starts[texts[-1] + 1])
        logits = rows[torch.from_numpy(places[own])]  # (P, L)
        given = read.given[texts[0] : texts[-1] + 1]
        yield from _tagged(given, read.pieces.take(texts), logits, labels, strategy, plain)


def _tagged(
    given: Sequence[Given],
    pieces: PackedPieces,
    logits: Tensor,
    labels: Sequence[str] | None,
    strategy: Strategy,
    plain: bool,
) -> Iterator[Tagged]:
    texts = [one if isinstance(one, str) else " ".join(one) for one in given]
    names = labels or [f"LABEL_{i}" for i in range(logits.shape[-1])]
    opens = _opens_joined_word(texts, pieces)
    if any(not isinstance(one, str) for one in given):  # the words of a list are not to be joined
        split = np.fromiter((not isinstance(one, str) for one in given), np.bool_, len(given))
        opens = np.where(split[pieces.owners], pieces.opens_word(), opens)
    firsts = np.flatnonzero(opens)
    lasts = np.append(firsts[1:], len(opens))[: len(firsts)] - 1
    spans = np.stack([pieces.spans[firsts, 0], pieces.spans[lasts, 1]], 1)
    owners = pieces.owners[firsts]
    scores, places = _best_labels(logits)  # of all pieces
    words = _rows_of(spans[:, 0], spans[:, 1], places[firsts], scores[firsts])
    numbers = np.arange(len(texts) + 1)
    bounds = np.searchsorted(owners, numbers).tolist()  # of the words of each text
    entities, ends = np.empty(0, _ROW), [0] * len(numbers)
    if not plain:
        if strategy == "simple":
            owners, spans = pieces.owners, pieces.spans
        elif strategy == "first":
            scores, places = scores[firsts], places[firsts]
        else:
            scores, places = (one.numpy() for one in _word_rows(logits.softmax(-1), firsts, strategy).max(-1))
        first = np.diff(owners, prepend=-1) != 0
        entities, texts_of = _entities(first, spans, places, scores, names)
        ends = np.searchsorted(owners[first][texts_of], numbers).tolist()
    named, types = (*names, OUTSIDE), _types(names)
    # a copy of each text's rows, or one result that is kept would keep those of many
    for one, text, (i, j), (k, m) in zip(given, texts, pairwise(bounds), pairwise(ends), strict=True):
        rows = words[i:j].copy() if isinstance(one, str) else _as_given(one, words[i:j], outside=len(names))
        yield Tagged.of_tables(LabelledTable(text, named, rows), LabelledTable(text, types, entities[k:m].copy()))


_FEW_LABELS = 16


def _best_labels(logits: Tensor) -> tuple[NDArray[np.float32], Ints]:
    """The highest probability in each row (P, L), and its place."""
    if logits.shape[-1] < _FEW_LABELS:  # along so short rows, softmax takes ten times as long as across them
        score, place = logits.T.contiguous().softmax(0).max(0)
    else:
        score, place = logits.softmax(-1).max(-1)
    return score.numpy(), place.numpy()


def _rows_of(starts: Ints, ends: Ints, labels: Ints, scores: NDArray[np.floating]) -> NDArray[np.void]:
    rows = np.empty(len(starts), _ROW)
    rows["start"], rows["end"], rows["label"], rows["score"] = starts, ends, labels, scores
    return rows


def _word_rows(scores: Tensor, firsts: Ints, strategy: Strategy) -> Tensor:
    """Scores of pieces (P, L) -> of words; a word of one piece has that piece's."""
    rows = scores[torch.from_numpy(firsts)]
    stops = np.append(firsts[1:], len(scores))
    several = np.flatnonzero(stops - firsts > 1)
    for word, start, stop in _rows(several, firsts[several], stops[several]):
        rows[word] = word_scores(scores[start:stop], strategy)
    return rows


Read = tuple[Given, list[Window], list[Tensor]]


def tag_windows(model: "Model", texts: Iterable[Given], *, overlap: int | None = None) -> Iterator[Read]:
    """Each text by itself, with its windows and their logits (tokens, L), for whoever shows tokens.

    Windows share `overlap` pieces (default: a third).
    """
    forward = through(model.network, "tags")
    tokenizer, room = model.tokenizer, room_for(model.tokenizer.template, model.encoder.max_length)

    def windows(chunk: list[Given]) -> list[list[Window]]:
        plain = iter(tokenizer.pieces_batch([text for text in chunk if isinstance(text, str)]))
        split = iter(tokenizer.words_batch([text for text in chunk if not isinstance(text, str)]))
        read = [next(plain if isinstance(text, str) else split) for text in chunk]
        return [cut(tokenizer.template, one, room, overlap) for one in read]

    return read_windows(model.network, forward, per_token, texts, windows)


def words_of(given: str | Sequence[str], windows: Sequence[Window]) -> tuple[list[Span], list[int]]:
    """The spans of all pieces of a text, and the number of the word that each belongs to."""
    parts = [(one.encoding, position) for one in windows for position in one.best]
    spans = [span for encoding, i in parts if (span := encoding.offsets[i]) is not None]
    owners = [word for encoding, i in parts if (word := encoding.words[i]) is not None]
    return spans, join_words(given, spans, owners) if isinstance(given, str) else owners


def _as_given(words: Sequence[str], found: NDArray[np.void], outside: int) -> NDArray[np.void]:
    """One row for each word that was given: what the tokenizer makes nothing of is outside, with score 0."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    ends = np.cumsum(lengths + 1) - 1
    rows = np.zeros(len(words), _ROW)
    rows["label"] = outside
    owners = np.searchsorted(ends, found["start"], side="right")
    there = np.flatnonzero(owners < len(words))[::-1]  # some tokenizers make a piece of no text at all
    rows[owners[there]] = found[there]  # of several in one word, the first counts, which comes last here
    rows["start"], rows["end"] = ends - lengths, ends
    return rows


def word_scores(pieces: Tensor, strategy: str) -> Tensor:
    """Scores (n, L) of a word's pieces -> the word's scores (L,): the first piece's, the surest's, or the average."""
    match strategy:
        case "first":
            return pieces[0]
        case "max":
            return pieces[pieces.amax(-1).argmax()]
        case _:
            return pieces.mean(0)
