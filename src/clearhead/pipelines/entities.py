"""Labels of words or pieces to entities: neighbours of one kind, by the prefixes B-, I- (and E-, S-, L-, U-)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

OUTSIDE = "O"  # the label of what is no entity
_PREFIXED = re.compile(r"[BIESLU]-(?=.)")
_OPENING = ("B-", "S-", "U-")  # an entity starts here, whatever stands before


@dataclass(frozen=True, slots=True)
class Labelled:
    """A slice of the text with its label and score: text[start:end]."""

    text: str
    label: str
    start: int
    end: int
    score: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"text": self.text, "label": self.label, "start": self.start, "end": self.end, "score": self.score}


def entities_of(text: str, parts: Sequence[Labelled]) -> tuple[Labelled, ...]:
    """Join neighbours of one kind into entities, each with the mean of their scores.

    As in transformers, an entity may open with I-, and labels without a prefix join their equals.
    """
    groups: list[list[Labelled]] = []
    for part in parts:
        opening = part.label.startswith(_OPENING) and _PREFIXED.match(part.label)
        if groups and not opening and _kind(part.label) == _kind(groups[-1][-1].label):
            groups[-1].append(part)
        else:
            groups.append([part])
    found = []
    for group in groups:
        kind = _kind(group[0].label)
        start, end = group[0].start, group[-1].end
        # a piece may be nothing but a space, which belongs to no word: no entity
        if kind != OUTSIDE and start < end:
            found.append(Labelled(text[start:end], kind, start, end, fmean(part.score for part in group)))
    return tuple(found)


def _kind(label: str) -> str:
    return _PREFIXED.sub("", label, count=1) if _PREFIXED.match(label) else label
