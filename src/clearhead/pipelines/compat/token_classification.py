"""`pipeline("ner")`: labels of tokens, or entities as transformers v4 joined them."""

# L labels

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.pipelines.compat.base import Options, Pipeline
from clearhead.pipelines.token_classification import TagWindows, tag_windows
from clearhead.text import Tokenizer


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece, or the pieces of a word: its tokens, where it stands in the text, and its probabilities (L,)."""

    tokens: list[str]
    start: int
    end: int
    index: int
    scores: Tensor
    continues: bool

    def best(self, labels: Sequence[str] | None) -> tuple[str, float]:
        """The likeliest label, and its probability."""
        place = int(self.scores.argmax())
        return labels[place] if labels else f"LABEL_{place}", float(self.scores[place])


def units_of(tokenizer: Tokenizer, read: TagWindows, *, delimiter: str, every: bool) -> list[list[Unit]]:
    """The pieces of each window: every one, or those that see most there; words that were given are joined first."""
    text = read.text if isinstance(read.text, str) else delimiter.join(read.text)
    # offsets count as if one space stood between the words that were given
    shift = 0 if isinstance(read.text, str) else len(delimiter) - 1
    unknown, mark = tokenizer.special.get("unk"), tokenizer.continuation
    found = []
    for window, logits in zip(read.windows, read.logits, strict=True):
        encoding, scores = window.encoding, logits.softmax(-1)
        units = []
        for position in window.passage if every else window.best:
            moved = shift * (encoding.words[position] or 0)
            start, end = (place + moved for place in encoding.offsets[position] or (0, 0))
            token, index = encoding.tokens[position], window.passage.start + window.piece(position)
            continues = token != unknown and _continues(mark, token, text, start)
            written = text[start:end] if token == unknown else token
            units.append(Unit([written], start, end, index, scores[position], continues))
        found.append(units)
    return found


def _continues(mark: str | None, token: str, text: str, start: int) -> bool:
    """Whether a piece continues a word; where pieces do not show it, a word is what stands between spaces."""
    return token.startswith(mark) if mark else start > 0 and " " not in text[start - 1 : start + 1]


def words_of(units: Sequence[Unit], strategy: str) -> list[Unit]:
    """Join pieces to words: a word has the scores of its first piece, of its surest, or the average."""
    words: list[list[Unit]] = []
    for unit in units:
        if words and unit.continues:
            words[-1].append(unit)
        else:
            words.append([unit])
    return [
        Unit(
            [unit.tokens[0] for unit in word],
            word[0].start,
            word[-1].end,
            word[0].index,
            _joined(word, strategy),
            False,
        )
        for word in words
    ]


def _joined(word: Sequence[Unit], strategy: str) -> Tensor:
    match strategy:
        case "first":
            return word[0].scores
        case "max":
            return max(word, key=lambda unit: float(unit.scores.max())).scores
        case _:
            return torch.stack([unit.scores for unit in word]).mean(0)


def entities_of(tokenizer: Tokenizer, units: Sequence[Unit], labels: Sequence[str] | None) -> list[dict[str, Any]]:
    """Join neighbours of one kind; B- opens a new entity, and a label without B- or I- is its own kind."""
    groups: list[list[tuple[Unit, str, float]]] = []
    for unit in units:
        label, score = unit.best(labels)
        if groups and not label.startswith("B-") and _kind(label) == _kind(groups[-1][-1][1]):
            groups[-1].append((unit, label, score))
        else:
            groups.append([(unit, label, score)])
    return [
        {
            "entity_group": group[0][1].split("-", 1)[-1],
            "score": fmean(score for _, _, score in group),
            "word": tokenizer.join([token for unit, _, _ in group for token in unit.tokens]),
            "start": group[0][0].start,
            "end": group[-1][0].end,
        }
        for group in groups
    ]


def _kind(label: str) -> str:
    return label[2:] if label.startswith(("B-", "I-")) else label


def longest_of_overlapping(entities: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of entities that overlap, since two windows saw them, the longest; of equally long ones the surest."""
    kept: list[dict[str, Any]] = []
    for entity in sorted(entities, key=itemgetter("start")):
        if not kept or entity["start"] >= kept[-1]["end"]:
            kept.append(entity)
        elif (_length(entity), entity["score"]) > (_length(kept[-1]), kept[-1]["score"]):
            kept[-1] = entity
    return kept


def _length(entity: dict[str, Any]) -> int:
    return int(entity["end"] - entity["start"])


_STRATEGIES = ("none", "simple", "first", "average", "max")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenOptions(Options):
    """As in v4; `grouped_entities` and `ignore_subwords` are its older way of naming a strategy.

    With `stride`, windows of a long text share so many pieces, and of entities that overlap the longest is kept;
    without, each piece counts in the window where it sees most. `delimiter` stands between words that are given.
    """

    aggregation_strategy: str | None = None
    ignore_labels: Sequence[str] | None = None
    stride: int | None = None
    is_split_into_words: bool = False
    delimiter: str | None = None
    grouped_entities: bool | None = None
    ignore_subwords: bool | None = None

    def __post_init__(self) -> None:
        known = ", ".join(_STRATEGIES)
        fits = self.strategy in _STRATEGIES
        require(fits, f"aggregation_strategy={self.aggregation_strategy!r} is not known; choose {known}", BadInput)
        joins = self.stride is None or self.strategy != "none"
        require(joins, "stride needs an aggregation_strategy other than none", BadInput)

    @property
    def strategy(self) -> str:
        """How pieces become entities."""
        older = "none" if not self.grouped_entities else "first" if self.ignore_subwords else "simple"
        return str(self.aggregation_strategy or older).lower()


class TokenClassification(Pipeline[TokenOptions]):
    """Dictionaries with entity, score, index, word, start, end; of entities: entity_group, score, word, start, end.

    text[start:end] is the entity. v4 truncates a text longer than the model unless `stride` is given; here it is
    always read in windows.
    """

    options = TokenOptions
    head = "tags"

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Label the tokens of one text, of many, or of a stream; of lists of words with `is_split_into_words`."""
        words = self._choose(options).is_split_into_words and isinstance(inputs, list)
        if words and all(isinstance(one, str) for one in inputs):
            inputs = [inputs]
        return super().__call__(inputs, **options)

    def _results(self, inputs: Sequence[Any], options: TokenOptions) -> Iterator[list[dict[str, Any]]]:
        for one in inputs:
            fits = isinstance(one, list if options.is_split_into_words else str)
            require(fits, f"A text is a string, or a list with is_split_into_words=True, not {one!r}.", BadInput)
        ignored = ("O",) if options.ignore_labels is None else options.ignore_labels
        for read in tag_windows(self.model.network, self.model.tokenizer, inputs, overlap=options.stride):
            found = self._found(read, options)
            kept = [one for one in found if one.get("entity", one.get("entity_group")) not in ignored]
            yield longest_of_overlapping(kept) if options.stride is not None else kept

    def _found(self, read: TagWindows, options: TokenOptions) -> Iterator[dict[str, Any]]:
        striding = options.stride is not None
        delimiter = " " if options.delimiter is None else options.delimiter
        parts = units_of(self.model.tokenizer, read, delimiter=delimiter, every=striding)
        for units in parts if striding else [[unit for part in parts for unit in part]]:
            match options.strategy:
                case "none":
                    yield from (self._token(unit) for unit in units)
                case "simple":
                    yield from entities_of(self.model.tokenizer, units, self.model.labels)
                case words:
                    yield from entities_of(self.model.tokenizer, words_of(units, words), self.model.labels)

    def _token(self, unit: Unit) -> dict[str, Any]:
        label, score = unit.best(self.model.labels)
        place = {"index": unit.index, "word": unit.tokens[0], "start": unit.start, "end": unit.end}
        return {"entity": label, "score": score, **place}
