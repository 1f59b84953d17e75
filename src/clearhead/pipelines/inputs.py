"""Texts and pairs of texts as inputs that fit a network; what is too long becomes several, nothing is left out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import zip_longest
from typing import Any, TypeVar

from clearhead.errors import BadInput, InputTooLong, require
from clearhead.pipelines.engine import Input
from clearhead.text import Tokenizer, Window, windows
from clearhead.text.windows import cuts

Item = TypeVar("Item")
Result = TypeVar("Result")


def inputs_of_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[list[Input]]:
    """The inputs of each text: one if it has at most `limit` tokens, else one for each window."""
    if tokenizer.tells_capitals:  # beside the ids
        cut = windows_of_texts(tokenizer, texts, limit)
        return [[Input(one.encoding.ids, one.encoding.segments, len(one.best)) for one in item] for item in cut]
    found = []
    for text, pieces in zip(texts, tokenizer.ids_batch(texts), strict=True):
        ids = tokenizer.template.wrap_ids(pieces)
        if len(ids) <= limit:
            found.append([Input(ids, ())])
        else:
            several = windows(tokenizer, text, length=limit)
            found.append([Input(one.encoding.ids, (), len(one.best)) for one in several])
    return found


def windows_of_texts(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int, overlap: int | None = None
) -> list[list[Window]]:
    """The windows of each text, for results that point into the text; the common case, one window, in a batch."""
    found = []
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        if len(encoding) <= limit:
            found.append([Window(encoding, 0, encoding.parts[0])])
        else:
            found.append(windows(tokenizer, text, length=limit, overlap=overlap))
    return found


def inputs_of_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], limit: int) -> list[list[Input]]:
    """The inputs of each pair; of one that is too long, the longer text is read in windows, beside the whole other."""
    pieces = iter(tokenizer.pieces_batch([text for pair in pairs for text in pair]))
    template = tokenizer.template
    specials = template.specials(pair=True)
    found = []
    for _ in pairs:
        first, second = next(pieces), next(pieces)
        longer = max(first, second, key=len)
        room = limit - specials - min(len(first), len(second))
        require(
            room > 0,
            f"Both texts of a pair are long ({len(first)} and {len(second)} tokens) and the model has {limit} "
            "positions; shorten one of them.",
            InputTooLong,
        )
        inputs = []
        for part, best in cuts(len(longer), room, room // 3):
            piece = longer.between(part.start, part.stop)
            encoding = template.wrap(piece, second) if longer is first else template.wrap(first, piece)
            inputs.append(Input(encoding.ids, encoding.segments, len(best)))
        found.append(inputs)
    return found


def listed(texts: str | Iterable[Item]) -> Iterable[Any]:
    """The texts that were given, of one alone a list; refuse what holds no texts before anything is computed."""
    if isinstance(texts, str):
        return [texts]
    several = hasattr(texts, "__iter__") or hasattr(texts, "__getitem__")
    several = several and not isinstance(texts, bytes | bytearray | Mapping)
    require(several, f"give a text or a list of texts, not {type(texts).__name__}", BadInput)
    return texts


def paired(first: str | Iterable[str], second: str | Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pair texts up: one with many, many with one, or two lists."""
    firsts, seconds = listed(first), listed(second)
    if isinstance(first, str):
        return ((first, other) for other in seconds)
    if isinstance(second, str):
        return ((other, second) for other in firsts)
    return _side_by_side(firsts, seconds)


def _side_by_side(firsts: Iterable[str], seconds: Iterable[str]) -> Iterator[tuple[str, str]]:
    for left, right in zip_longest(firsts, seconds):
        both = left is not None and right is not None
        require(both, "two lists must be equally long to be paired; one has ended before the other", BadInput)
        yield left, right


def as_given(given: object, found: Iterator[Result]) -> Result | list[Result] | Iterator[Result]:
    """Give one result for one text, a list for a list (or another column of known length), else the iterator."""
    if isinstance(given, str):
        return next(found)
    return list(found) if isinstance(given, Sized) else found


def longer(first: str | Iterable[str], second: str | Iterable[str]) -> str | Iterable[str]:
    """The side of a pair that says how many there are."""
    return second if isinstance(first, str) else first
