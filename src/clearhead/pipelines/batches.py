"""Which inputs run together: sorted by length, filled up to a number of tokens, so that short texts never wait."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from clearhead.data.chunks import chunks
from clearhead.errors import BadInput, require

Item = TypeVar("Item")

# what is sorted together: enough that neighbours in length are many, few enough for any memory
_CHUNK_CHARACTERS = 4_000_000
_CHARACTERS_OF_NOTHING = 250  # an input costs memory even if it is empty


def token_budgets(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group indices, longest first, so that each group has at most `budget` tokens (or is a single input).

    Neighbours have equal or nearly equal length, which the packed layout turns into few attention calls.
    """
    group: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if group and tokens + lengths[index] > budget:
            yield group
            group, tokens = [], 0
        group.append(index)
        tokens += lengths[index]
    if group:
        yield group


def chunks_of_text(items: Iterable[Item], characters: int | None = None) -> Iterator[list[Item]]:
    """Cut a stream of texts, or of what holds texts, into lists that fit the memory however long the texts are."""
    most = _CHUNK_CHARACTERS if characters is None else characters
    return chunks(map(plain, items), most, lambda item: _characters(item) + _CHARACTERS_OF_NOTHING)


def plain(item: Any) -> Any:
    """A cell of an arrow column as Python's own value, also within a pair; everything else as it is."""
    if type(item) is tuple:
        return tuple(map(plain, item))
    return item.as_py() if hasattr(item, "as_py") else item


def _characters(item: object) -> int:
    if isinstance(item, str):
        return len(item)
    require(isinstance(item, tuple | list), f"A text must be a string, not {type(item).__name__}.", BadInput)
    return sum(map(_characters, cast("Sequence[object]", item)))
