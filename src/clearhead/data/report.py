"""A first look at the data, before anything is spent: rows, labels, lengths, what will be cut, what is there twice."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clearhead.data.dataset import ids_of
from clearhead.data.examples import ChoiceExample, Example, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.data.formats import misplaced
from clearhead.data.tags import entity_type
from clearhead.errors import BadInput, InputTooLong, require
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import room_for, spans

_SHOWN = 20  # labels
_SHOWN_UNKNOWN = 3
_EXAMPLES = 3
_WIDTH = 100  # characters of an example


@dataclass(frozen=True)
class SplitReport:
    """What one file holds. `longer` inputs have more tokens than asked: cut, or, if `windows` is given, windowed."""

    name: str
    rows: int
    labels: dict[str, int]
    scores: tuple[float, float, float] | None  # least, mean, most
    unlabelled: int
    mean: float
    median: float
    percentile_95: float
    longest: int
    longer: int
    windows: int | None
    empty: int
    repeated: int
    misplaced: int
    examples: list[str]


@dataclass(frozen=True)
class DatasetReport:
    """What the sets hold, and how many rows of the later ones are in the first as well."""

    length: int
    sets: tuple[SplitReport, ...]
    shared: dict[str, int]
    new_labels: dict[str, list[str]]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for programs."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(line for one in self.sets for line in self._lines(one))

    def _lines(self, one: SplitReport) -> list[str]:
        lines = [
            f"{one.name}: {one.rows:,} rows",
            f"  tokens    mean {one.mean:.1f}, median {one.median:.0f}, 95 % up to {one.percentile_95:.0f}, "
            f"longest {one.longest:,}",
        ]
        if one.labels:
            shown = sorted(one.labels.items(), key=lambda item: (-item[1], item[0]))
            more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            lines.append("  labels    " + ", ".join(f"{label} {count:,}" for label, count in shown[:_SHOWN]) + more)
        if one.scores is not None:
            lines.append(f"  scores    {one.scores[0]:g} to {one.scores[2]:g}, mean {one.scores[1]:.3f}")
        if one.windows is not None:
            lines.append(f"  windows   {one.longer:,} longer than {self.length} tokens; {one.windows:,} windows in all")
        elif one.longer:
            lines.append(f"  cut       {one.longer:,} inputs are longer than {self.length} tokens and will be cut")
        counts = {
            "without a label": one.unlabelled,
            "with an empty text": one.empty,
            "there more than once": one.repeated,
            "with an answer that is not where it says": one.misplaced,
            f"also in {self.sets[0].name}": self.shared.get(one.name, 0),
        }
        lines += [f"  note      {count:,} rows {what}" for what, count in counts.items() if count]
        if new := self.new_labels.get(one.name):
            first = self.sets[0].name
            lines.append(f"  note      labels that {first} has not, which are refused: {', '.join(new[:_SHOWN])}")
        return lines + [f"  example   {example}" for example in one.examples]


def describe(
    sets: dict[str, Sequence[Example]], tokenizer: Tokenizer, *, length: int, overlap: int = 128
) -> DatasetReport:
    """Look at named sets, the training data first; inputs of more than `length` tokens are cut or windowed."""
    require(bool(sets) and all(sets.values()), "There is nothing to look at: a set has no examples.", BadInput)
    found = tuple(_describe(name, rows, tokenizer, length, overlap) for name, rows in sets.items())
    keys = {name: [tuple(_inputs(example)) for example in rows] for name, rows in sets.items()}
    first, *others = sets
    seen, known = set(keys[first]), found[0].labels
    return DatasetReport(
        length,
        found,
        {name: sum(key in seen for key in keys[name]) for name in others},
        {one.name: sorted(set(one.labels) - set(known)) for one in found[1:] if known},
    )


def _describe(name: str, rows: Sequence[Example], tokenizer: Tokenizer, length: int, overlap: int) -> SplitReport:
    inputs = [texts for example in rows for texts in _inputs(example)]
    unique = list(dict.fromkeys(text for texts in inputs for text in texts))
    counts = dict(zip(unique, map(len, ids_of(tokenizer, unique)), strict=True))
    specials = {1: tokenizer.template.specials(pair=False), 2: tokenizer.template.specials(pair=True)}
    lengths = np.array([sum(counts[text] for text in texts) + specials[len(texts)] for texts in inputs])
    labels = [label_of(example) for example in rows]
    scores = [label for label in labels if isinstance(label, float)]
    windows = None
    if isinstance(rows[0], WordsExample | QuestionExample):
        windows = 0
        for texts in inputs:
            room = room_for(tokenizer.template, length, counts[texts[0]] if len(texts) == 2 else None)
            require(room > 1, f"Windows of {length} tokens have no room beside {texts[0][:60]!r}.", InputTooLong)
            shared = overlap if len(texts) == 2 else room // 3
            windows += len(spans(counts[texts[-1]], room, min(shared, room // 2)))
    return SplitReport(
        name=name,
        rows=len(rows),
        labels=dict(Counter(name for label in labels if isinstance(label, tuple) for name in label)),
        scores=(min(scores), float(np.mean(scores)), max(scores)) if scores else None,
        # pairs without any score, such as prompts and answers, teach by themselves
        unlabelled=0 if isinstance(rows[0], PairExample) and not scores else sum(label is None for label in labels),
        mean=float(lengths.mean()),
        median=float(np.median(lengths)),
        percentile_95=float(np.percentile(lengths, 95)),
        longest=int(lengths.max()),
        longer=int((lengths > length).sum()),
        windows=windows,
        empty=sum(any(not text.strip() for texts in _inputs(example) for text in texts) for example in rows),
        repeated=len(rows) - len({tuple(_inputs(example)) for example in rows}),
        misplaced=sum(isinstance(example, QuestionExample) and bool(misplaced(example)) for example in rows),
        examples=[_show(example) for example in rows[:_EXAMPLES]],
    )


def _inputs(example: Example) -> list[tuple[str, ...]]:
    """The inputs of an example, each a text or a pair, as they are tokenised."""
    match example:
        case TextExample(text, pair):
            return [(text,) if pair is None else (text, pair)]
        case WordsExample(words):
            return [(" ".join(words),)]
        case QuestionExample(question=question, context=context):
            return [(question, context)]
        case ChoiceExample(context, choices):
            return [(context, choice) for choice in choices]
        case PairExample(first, second):
            return [(first,), (second,)]


def label_of(example: Example) -> tuple[str, ...] | float | None:
    """What is to be learnt of an example: names, a score, or None where it is not said."""
    match example:
        case TextExample(label=str(label)):
            return (label,)
        case TextExample(label=label):
            return label  # type: ignore[return-value]
        case WordsExample(tags=tags):
            return tags
        case QuestionExample(answers=answers, impossible=impossible):
            return ("impossible",) if impossible else ("answerable",) if answers else None
        case ChoiceExample(label=number):
            return None if number is None else (f"choice {number}",)
        case PairExample(score=score):
            return score


def check_known(
    examples: Sequence[Example], known: Collection[str], who: str, *, allow: bool = False
) -> dict[str, int]:
    """Refuse labels that `who` does not know, such as "the model"; or, where they are allowed, count them.

    Of tags that mark entities, the types are compared: schemes may differ.
    """
    kind = entity_type if examples and isinstance(examples[0], WordsExample) else str
    types = set(map(kind, known))
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for number, example in enumerate(examples, start=1):
        labels = label_of(example)
        for label in set(map(kind, labels)) - types if isinstance(labels, tuple) else ():
            counts[label] += 1
            first.setdefault(label, example.where or f"example {number}")
    if counts and not allow:
        named = [f"{label!r} ({_examples(count)}, the first: {first[label]})" for label, count in counts.most_common()]
        shown = ", ".join(named[:_SHOWN_UNKNOWN]) + (
            f" and {len(named) - _SHOWN_UNKNOWN} more" if named[_SHOWN_UNKNOWN:] else ""
        )
        there = ", ".join(map(repr, sorted(types)[:_SHOWN]))
        todo = "Rename them, take these examples out, or count them as wrong (--allow-unknown-labels)"
        raise BadInput(f"the data has labels that {who} does not know: {shown}; it knows {there}. {todo}.")
    return dict(counts)


def _examples(count: int) -> str:
    return f"{count:,} example{'' if count == 1 else 's'}"


def _show(example: Example) -> str:
    label = label_of(example)
    said = "" if label is None else f" → {f'{label:g}' if isinstance(label, float) else ' '.join(label)}"
    texts = " | ".join(dict.fromkeys(" ".join(text.split()) for texts in _inputs(example) for text in texts))
    return (texts if len(texts) <= _WIDTH else texts[: _WIDTH - 1] + "…") + said[:_WIDTH]
