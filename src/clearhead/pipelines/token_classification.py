"""Labels of words, and the entities they form, as slices of the text."""

# P pieces of the whole text · L labels

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby, pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from clearhead.data.tags import OUTSIDE, are_plain, entity_type
from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.pipelines.results import Labelled as Labelled
from clearhead.pipelines.results import Tagged as Tagged
from clearhead.pipelines.runner import per_token, read_windows, through
from clearhead.text import Tokenizer, Window
from clearhead.text.encoding import Pieces, Span
from clearhead.text.windows import cut, room_for

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

_OPENING = re.compile(r"[BSU]-(?=.)")  # an entity starts here, whatever stands before


def entities_of(text: str, parts: Sequence[Labelled]) -> tuple[Labelled, ...]:
    """Join neighbours of one type into entities, each with the mean of their scores.

    As in transformers, an entity may open with I-, and labels without a prefix join their equals.
    """
    found = []
    labels = [part.label for part in parts]
    for span in runs_of_one_type(labels, entity_type, lambda label: _OPENING.match(label) is not None):
        group = parts[span]
        name, start, end = entity_type(group[0].label), group[0].start, group[-1].end
        # a piece may be nothing but a space, which belongs to no word: no entity
        if name != OUTSIDE and start < end:
            found.append(Labelled(text[start:end], name, start, end, fmean(part.score for part in group)))
    return tuple(found)


def runs_of_one_type(labels: Sequence[str], type_of: Callable[[str], str], opens: Callable[[str], bool]) -> list[slice]:
    """Where neighbours have labels of one type; a label that opens an entity begins a run, whatever stands before."""
    types = [type_of(label) for label in labels]
    starts = [i for i, label in enumerate(labels) if i == 0 or opens(label) or types[i] != types[i - 1]]
    return [slice(start, end) for start, end in pairwise([*starts, len(labels)])]


_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # U.S, before its last full stop
_CLITICS = {"s", "t", "d", "m", "re", "ve", "ll"}  # it's, don't: words of their own, with their apostrophe
_NEGATION = re.compile(r"n['’]t\b", re.IGNORECASE)  # as in do n't
_APOSTROPHES, _HYPHENS, _POINTS = {"'", "’"}, {"-", "&", "/", "_"}, {".", ",", ":"}
_NEAR = 8  # characters that are looked at before and behind, so that time grows with the length of a text and no faster
_LONGEST = 100  # characters of a word, for the same reason
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # each is a word already


def join_words(text: str, spans: Sequence[Span], words: Sequence[int]) -> list[int]:
    """Number the words anew, for each piece of a text: U.S., C. Cairns, O'Brien, AT&T and 12:30 are not parted."""
    found: list[int] = []
    units: list[Span] = []  # the tokenizer's words
    sizes: list[int] = []
    for _, group in groupby(zip(words, spans, strict=True), key=lambda piece: piece[0]):
        places = [span for _, span in group]
        units.append((places[0][0], places[-1][1]))
        sizes.append(len(places))
    begin = number = 0
    for i, size in enumerate(sizes):
        if i and not _holds(text, units, begin, i):
            begin, number = i, number + 1
        found += [number] * size
    return found


def _holds(text: str, units: Sequence[Span], begin: int, i: int) -> bool:
    """Whether unit i belongs to the word that began with unit `begin` and goes up to it."""
    (start, end), (last, before) = units[i], units[i - 1]
    if start != before or before - units[begin][0] > _LONGEST:
        return False
    if (negated := _NEGATION.match(text, units[begin][0])) is not None and end <= negated.end():
        return True
    sign, word = text[start:end], text[units[begin][0] : before]
    after = text[end : units[i + 1][1]] if i + 1 < len(units) and units[i + 1][0] == end else ""
    if _is_word(sign):
        clitic = text[last:before] in _APOSTROPHES and sign.lower() in _CLITICS
        return clitic or (begin < i - 1 and not _is_word(text[last:before]))
    if not _is_word(text[last:before]):
        return False
    follows = text[end : end + _NEAR].lstrip()
    if sign == "." and word.isdigit() and _opens_a_line(text, units[begin][0]):
        return bool(follows)  # 1. of a list
    if sign == "." and _INITIALS.fullmatch(word):
        return "." in word or _is_word(after) or (word.isupper() and follows[:1].isupper())
    if not _is_word(after):
        return False
    if sign in _APOSTROPHES:
        return after.lower() not in _CLITICS
    if sign in _POINTS:
        return (word[-1].isdigit() and after[0].isdigit()) or (sign == "." and after[0].islower())
    return sign in _HYPHENS


# where Universal Dependencies part what is written as one word: do|n't, can|not
_CONTRACTION = re.compile(rf"(?<=\w)(?={_NEGATION.pattern})|(?<=\bcan)(?=not\b)", re.IGNORECASE)


def part_contractions(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Pieces]:
    """The pieces of texts with contractions read as two words, which is how taggers of parts of speech learn them."""
    cuts = [[found.start() for found in _CONTRACTION.finditer(text)] for text in texts]
    parted = tokenizer.pieces_batch([_CONTRACTION.sub(" ", text) for text in texts])
    return [
        replace(pieces, offsets=[(_back(start, at), _back(end, at)) for start, end in pieces.offsets]) if at else pieces
        for pieces, at in zip(parted, cuts, strict=True)
    ]


def _back(place: int, cuts: Sequence[int]) -> int:
    """Where a character stood before a space was put in at each cut."""
    return place - bisect_left(range(len(cuts)), place, key=lambda i: cuts[i] + i)


def _opens_a_line(text: str, place: int) -> bool:
    before = text[max(place - _NEAR, 0) : place].rstrip(" \t")
    return before.endswith("\n") or (not before and place < _NEAR)


def _is_word(part: str) -> bool:
    return bool(part) and part[0].isalnum() and not _IDEOGRAPHS.match(part)


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
    pieces = partial(part_contractions, model.tokenizer) if plain else None
    read = tag_windows(model, texts, pieces=pieces, progress=progress)
    return (_result(*one, model.labels, strategy, plain) for one in read)


Read = tuple[str | Sequence[str], list[Window], list[Tensor]]


def tag_windows(
    model: "Model",
    texts: Iterable[str | Sequence[str]],
    *,
    overlap: int | None = None,
    pieces: Callable[[Sequence[str]], list[Pieces]] | None = None,
    progress: Progress | None = None,
) -> Iterator[Read]:
    """Each text with its windows and their logits (tokens, L); windows share `overlap` pieces (default: a third).

    `pieces` cuts strings in another way than the tokenizer does.
    """
    forward = through(model.network, "tags")
    tokenizer, room = model.tokenizer, room_for(model.tokenizer.template, model.encoder.max_length)

    def windows(chunk: list[str | Sequence[str]]) -> list[list[Window]]:
        plain = iter((pieces or tokenizer.pieces_batch)([text for text in chunk if isinstance(text, str)]))
        split = iter(tokenizer.words_batch([text for text in chunk if not isinstance(text, str)]))
        read = [next(plain if isinstance(text, str) else split) for text in chunk]
        return [cut(tokenizer.template, one, room, overlap) for one in read]

    return read_windows(model.network, forward, per_token, texts, windows, progress)


def _result(
    given: str | Sequence[str],
    windows: list[Window],
    tables: list[Tensor],
    labels: Sequence[str] | None,
    strategy: Strategy,
    plain: bool,
) -> Tagged:
    text = given if isinstance(given, str) else " ".join(given)
    spans, owners = words_of(given, windows)
    if not owners:
        return Tagged(() if isinstance(given, str) else _as_given(given, ()), ())
    logits = [table[one.best.start : one.best.stop] for one, table in zip(windows, tables, strict=True)]
    scores = torch.cat(logits).softmax(-1)  # (P, L)
    names = labels or [f"LABEL_{i}" for i in range(scores.shape[-1])]

    firsts = [i for i, owner in enumerate(owners) if i == 0 or owner != owners[i - 1]]
    word_spans = [(spans[i][0], spans[j - 1][1]) for i, j in pairwise([*firsts, len(owners)])]
    words = _labelled(text, word_spans, scores[firsts], names)
    match strategy:
        case "first":
            joined = words
        case "simple":
            joined = _labelled(text, spans, scores, names)
        case _:
            rows = torch.stack([word_scores(pieces, strategy) for pieces in scores.tensor_split(firsts[1:])])
            joined = _labelled(text, word_spans, rows, names)
    entities = () if plain else entities_of(text, joined)
    return Tagged(words if isinstance(given, str) else _as_given(given, words), entities)


def words_of(given: str | Sequence[str], windows: Sequence[Window]) -> tuple[list[Span], list[int]]:
    """The spans of all pieces of a text, and the number of the word that each belongs to."""
    parts = [(one.encoding, position) for one in windows for position in one.best]
    spans = [span for encoding, i in parts if (span := encoding.offsets[i]) is not None]
    owners = [word for encoding, i in parts if (word := encoding.words[i]) is not None]
    return spans, join_words(given, spans, owners) if isinstance(given, str) else owners


def _as_given(words: Sequence[str], found: Sequence[Labelled]) -> tuple[Labelled, ...]:
    """One entry for each word that was given: what the tokenizer makes nothing of is outside, with score 0."""
    ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
    by_word = {bisect_right(ends, one.start): one for one in reversed(found)}
    outside = Labelled("", OUTSIDE, 0, 0, 0.0)
    return tuple(
        replace(by_word.get(i, outside), text=word, start=end - len(word), end=end)
        for i, (word, end) in enumerate(zip(words, ends, strict=True))
    )


def word_scores(pieces: Tensor, strategy: str) -> Tensor:
    """Scores (n, L) of a word's pieces -> the word's scores (L,): the first piece's, the surest's, or the average."""
    match strategy:
        case "first":
            return pieces[0]
        case "max":
            return pieces[pieces.amax(-1).argmax()]
        case _:
            return pieces.mean(0)


def _labelled(
    text: str, spans: Sequence[tuple[int, int]], scores: Tensor, names: Sequence[str]
) -> tuple[Labelled, ...]:
    best, index = scores.max(-1)
    return tuple(
        Labelled(text[start:end], names[i], start, end, score)
        for (start, end), i, score in zip(spans, index.tolist(), best.tolist(), strict=True)
    )
