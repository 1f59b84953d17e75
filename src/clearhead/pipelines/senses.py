"""Word senses: one word in many sentences, grouped by its contextual vectors."""

# M occurrences · D width

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import BadInput, NotFound, require
from clearhead.io import Record
from clearhead.pipelines.embedding import TokenVectors, unit


def average_linkage(
    cosines: NDArray[np.float32], *, threshold: float = -1.0, count: int | None = None
) -> list[list[int]]:
    """(M, M) -> groups of places, the largest first, then by their first member.

    Joins while the best mean cosine is at least `threshold`; with `count`, until that many groups are left.
    """
    size = len(cosines)
    enough = count is None or 0 < count <= size
    require(enough, f"{size} cannot be put into {count} groups; choose 1 to {size}", BadInput)
    groups = {place: [place] for place in range(size)}
    near = cosines.astype(np.float64)
    np.fill_diagonal(near, -np.inf)
    while len(groups) > (count or 1):
        first, second = sorted(map(int, np.unravel_index(near.argmax(), near.shape)))
        if count is None and near[first, second] < threshold:
            break
        own, other = len(groups[first]), len(groups[second])
        near[first] = near[:, first] = (own * near[first] + other * near[second]) / (own + other)
        near[first, first] = -np.inf
        near[second] = near[:, second] = -np.inf
        groups[first] += groups.pop(second)
    return sorted((sorted(group) for group in groups.values()), key=lambda group: (-len(group), group[0]))


# Tell the senses of "bank", "apple" and "train" apart in the mean of the last four layers of all-MiniLM-L6-v2 and of
# the built-in model. In some models all vectors lie close together: there, occurrences of one sense are nearer than
# this share of the way from any other token to the same vector.
_NEAR = 0.85
_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Occurrence(Record):
    """The word in one place: `text` is a verbatim slice, texts[index][start:end]; `sense` counts from 0."""

    text: str
    index: int
    start: int
    end: int
    sense: int


@dataclass(frozen=True, slots=True, eq=False)
class Senses(Record):
    """All occurrences, in order, and the cosine of each pair, (M, M); sense 0 is the one with most occurrences.

    `threshold` is the mean cosine at which senses were joined, None where their number was asked for.
    """

    occurrences: tuple[Occurrence, ...]
    cosines: NDArray[np.float32]
    threshold: float | None = None

    @property
    def groups(self) -> list[list[int]]:
        """The occurrences of each sense."""
        found: list[list[int]] = [[] for _ in range(max(one.sense for one in self.occurrences) + 1)]
        for place, one in enumerate(self.occurrences):
            found[one.sense].append(place)
        return found


def forms_of(word: str) -> list[str]:
    """An English word and its form with -s, of a noun or a verb: bank, banks; box, boxes; city, cities."""
    own = word.strip()
    if not (own.isascii() and own.isalpha()) or own.lower().endswith("s"):
        return [own]
    if own.lower().endswith(("x", "z", "ch", "sh")):
        return [own, own + "es"]
    if own[-1:].lower() == "y" and own[-2:-1].lower() not in "aeiou":
        return [own, own[:-1] + "ies"]
    return [own, own + "s"]


def find_word(forms: Sequence[str], text: str) -> Iterator[tuple[int, int]]:
    """Where a word stands in a text, in any of its forms and any case, not inside a longer word: text[start:end]."""
    # the longest form first, or "bank" would hide "bank account"
    either = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return (found.span() for found in re.finditer(rf"(?<!\w)(?:{either})(?!\w)", text, re.IGNORECASE))


def senses(
    word: str | Sequence[str],
    texts: Sequence[str],
    tokens: Iterable[TokenVectors],
    *,
    threshold: float | None = None,
    count: int | None = None,
) -> Senses:
    """Group the occurrences of a word, given the token vectors of the texts; one string also stands for its -s form.

    Several strings are the forms that are looked for, and no others.

    An occurrence's vector is the mean of its pieces' vectors. Groups are joined by average linkage while the mean
    cosine between two is at least `threshold`, or until there are `count`. The default threshold is 0.85, or more in
    a model whose vectors all lie close together.
    """
    forms = forms_of(word) if isinstance(word, str) else list(word)
    require(bool(forms) and all(form.strip() for form in forms), "the word is empty; give one to look for", BadInput)
    found: list[tuple[int, int, int]] = []
    vectors = []
    others: Any = 0.0  # (D,) the sum of all other tokens' directions
    rest = 0
    for index, (text, table) in enumerate(zip(texts, tokens, strict=True)):
        other = np.ones(len(table.vectors), dtype=bool)
        for start, end in find_word(forms, text):
            pieces = table.vectors[table.over(start, end)]
            other[table.over(start, end)] = False
            if len(pieces):  # characters that the tokenizer drops have none
                found.append((index, start, end))
                vectors.append(pieces.mean(0))
        others, rest = others + unit(table.vectors[other]).sum(0), rest + int(other.sum())
    named = repr(word) if isinstance(word, str) else " or ".join(map(repr, forms))
    require(bool(found), f"{named} is in none of the {len(texts)} texts", NotFound)
    own = unit(np.stack(vectors))
    cosines = (own @ own.T).clip(-1, 1)
    if threshold is None:
        anyone = float((own @ others).mean()) / max(rest, 1)
        threshold = max(_NEAR, anyone + _SHARE * (1 - anyone))
    groups = average_linkage(cosines, threshold=threshold, count=count)
    sense_of = {place: sense for sense, group in enumerate(groups) for place in group}
    occurrences = tuple(
        Occurrence(texts[index][start:end], index, start, end, sense_of[place])
        for place, (index, start, end) in enumerate(found)
    )
    return Senses(occurrences, cosines, threshold if count is None else None)
