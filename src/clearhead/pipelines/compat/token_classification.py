"""`pipeline("ner")`: labels of tokens, or entities as transformers v4 joined them."""

# L labels

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from operator import itemgetter
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.pipelines.compat.base import Options, Pipeline
from clearhead.pipelines.token_classification import Read, runs_of_one_type, tag_windows, word_scores, words_of
from clearhead.text import Tokenizer

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
        fits = self.stride is None or self.strategy != "none"
        require(fits, "stride needs an aggregation_strategy other than none", BadInput)

    @property
    def strategy(self) -> str:
        """How pieces become entities."""
        older = "none" if not self.grouped_entities else "first" if self.ignore_subwords else "simple"
        return str(self.aggregation_strategy or older).lower()


class TokenClassification(Pipeline[TokenOptions]):
    """Dictionaries with entity, score, index, word, start, end; of entities: entity_group, score, word, start, end.

    text[start:end] is the entity. v4 truncates a text longer than the model unless `stride` is given; here it is
    always read in windows. A model that was taught by the first piece of each word (`Description.whole_words`) gives
    whole words, and the same entities by every strategy.
    """

    options = TokenOptions
    head, use = "tags", "tag"

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
        for read in tag_windows(self.model, inputs, overlap=options.stride):
            found = self._found(read, options)
            kept = [one for one in found if one.get("entity", one.get("entity_group")) not in ignored]
            yield _longest_of_overlapping(kept) if options.stride is not None else kept

    def _found(self, read: Read, options: TokenOptions) -> Iterator[dict[str, Any]]:
        tokenizer, labels = self.model.tokenizer, self.model.labels
        striding = options.stride is not None
        delimiter = " " if options.delimiter is None else options.delimiter
        windows = _units(tokenizer, read, delimiter=delimiter, every=striding)
        whole = self.model.checkpoint.description.whole_words
        if whole:
            windows = _taught_words(windows, read, labels)
        for units in windows if striding else [list(chain.from_iterable(windows))]:
            match "whole" if whole and options.strategy != "none" else options.strategy:
                case "none":
                    for unit in units:
                        label, score = unit.best(labels)
                        place = {"index": unit.index, "word": unit.tokens[0], "start": unit.start, "end": unit.end}
                        yield {"entity": label, "score": score, **place}
                case "simple":
                    yield from _entities(tokenizer, units, labels)
                case "whole":
                    yield from _entities(tokenizer, _words(units, "first"), labels)
                case strategy:
                    yield from _entities(tokenizer, _words(units, strategy), labels)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A piece, or the pieces of a word: its tokens, where it stands in the text, and its probabilities (L,)."""

    tokens: list[str]
    start: int
    end: int
    index: int
    scores: Tensor
    continues: bool = False

    def best(self, labels: Sequence[str] | None) -> tuple[str, float]:
        """The likeliest label, and its probability."""
        place = int(self.scores.argmax())
        return labels[place] if labels else f"LABEL_{place}", float(self.scores[place])


def _units(tokenizer: Tokenizer, read: Read, *, delimiter: str, every: bool) -> list[list[_Unit]]:
    """The pieces of each window: every one, or those that see most there; words that were given are joined first."""
    given, windows, tables = read
    text = given if isinstance(given, str) else delimiter.join(given)
    # offsets count as if one space stood between the words that were given
    shift = 0 if isinstance(given, str) else len(delimiter) - 1
    unknown, mark = tokenizer.special.get("unk"), tokenizer.continuation  # such as ##
    found = []
    for window, logits in zip(windows, tables, strict=True):
        encoding, scores = window.encoding, logits.softmax(-1)
        units = []
        for position in window.passage if every else window.best:
            moved = shift * (encoding.words[position] or 0)
            start, end = (place + moved for place in encoding.offsets[position] or (0, 0))
            token, index = encoding.tokens[position], window.passage.start + window.piece(position)
            # where pieces do not show whether they continue a word, a word is what stands between spaces
            continues = token.startswith(mark) if mark else start > 0 and " " not in text[start - 1 : start + 1]
            written = text[start:end] if token == unknown else token
            units.append(_Unit([written], start, end, index, scores[position], token != unknown and continues))
        found.append(units)
    return found


def _taught_words(units: Sequence[list[_Unit]], read: Read, labels: Sequence[str] | None) -> list[list[_Unit]]:
    """The pieces of a model that was taught by first pieces: the others go on with what the first of a word says."""
    given, windows, tables = read
    _, owners = words_of(given, windows)
    rows = [table[one.best.start : one.best.stop] for one, table in zip(windows, tables, strict=True)]
    inside = _inside(torch.cat(rows).softmax(-1), labels or ())
    firsts: list[int] = []
    for piece, owner in enumerate(owners):
        firsts.append(firsts[-1] if piece and owner == owners[piece - 1] else piece)
    start = windows[0].passage.start

    def taught(unit: _Unit) -> _Unit:
        first = firsts[unit.index - start]
        if first == unit.index - start:
            return replace(unit, continues=False)
        return replace(unit, continues=True, scores=inside[first])

    return [[taught(unit) for unit in several] for several in units]


def _inside(scores: Tensor, labels: Sequence[str]) -> Tensor:
    """The same probabilities (…, L) for what continues a word: what opened an entity goes on with it."""
    scores = scores.clone()
    for place, label in enumerate(labels):
        if label.startswith("B-") and (same := f"I-{label[2:]}") in labels:
            scores[:, labels.index(same)] += scores[:, place]
            scores[:, place] = 0
    return scores


def _words(units: Sequence[_Unit], strategy: str) -> list[_Unit]:
    """Join pieces to words, with the scores of the first piece, of the surest, or the average."""
    starts = [i for i, unit in enumerate(units) if i == 0 or not unit.continues]
    words = []
    for start, end in pairwise([*starts, len(units)]):
        word = units[start:end]
        scores = word_scores(torch.stack([unit.scores for unit in word]), strategy)
        tokens = [unit.tokens[0] for unit in word]
        words.append(_Unit(tokens, word[0].start, word[-1].end, word[0].index, scores))
    return words


def _entities(tokenizer: Tokenizer, units: Sequence[_Unit], labels: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Join neighbours of one type.

    Not as `entities_of`: v4 knows no prefixes but B- and I-, names an entity by what follows the first hyphen of its
    label, whatever stands before, and spells its word from tokens.
    """
    best = [unit.best(labels) for unit in units]
    type_of = partial(re.sub, "^[BI]-", "")
    for run in runs_of_one_type([label for label, _ in best], type_of, lambda label: label.startswith("B-")):
        group = units[run]
        yield {
            "entity_group": best[run.start][0].split("-", 1)[-1],
            "score": fmean(score for _, score in best[run]),
            "word": tokenizer.join([token for unit in group for token in unit.tokens]),
            "start": group[0].start,
            "end": group[-1].end,
        }


def _longest_of_overlapping(entities: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of entities that overlap, since two windows saw them, the longest; of equally long ones the surest."""
    kept: list[dict[str, Any]] = []
    for entity in sorted(entities, key=itemgetter("start")):
        if not kept or entity["start"] >= kept[-1]["end"]:
            kept.append(entity)
        else:
            kept[-1] = max(kept[-1], entity, key=lambda one: (one["end"] - one["start"], one["score"]))
    return kept
