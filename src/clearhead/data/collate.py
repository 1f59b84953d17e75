"""Texts with labels, pairs and choices to tokens and targets: `encoded` holds the arrays."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.data.encoded import Arrays, Encoded, Writer, ids_and_capitals, ids_of
from clearhead.data.examples import ChoiceExample, Label, PairExample, TextExample
from clearhead.data.labels import Labels
from clearhead.errors import BadInput, InputTooLong, require
from clearhead.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)


def encode_texts(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    labels: Labels | None = None,
    *,
    length: int | None = None,
) -> Encoded:
    """Tokenise texts or pairs; targets: classes (E,), classes (E, L) where there are several each, or scores (E,).

    Inputs of more than `length` tokens are cut, the longer text of a pair first, and it is said how many.
    """
    pairs = {example.pair is not None for example in examples}
    require(len(pairs) == 1, "Give examples that are all single texts or all pairs, and at least one.", BadInput)
    targets = _targets([example.label for example in examples], labels)
    firsts = [example.text for example in examples]
    seconds = [example.pair for example in examples if example.pair is not None]
    ids, capitals = ids_and_capitals(tokenizer, firsts + seconds)
    writer = _Fitting(tokenizer, length, pair=bool(seconds))
    for i in range(len(examples)):
        texts = slice(i, None, len(examples))  # the first, and the second if there is one
        first, *second = ids[texts]
        writer.add(first, second[0] if second else None, None if capitals is None else capitals[texts])
    return writer.done(targets=targets)


def encode_pairs(
    examples: Sequence[PairExample],
    tokenizer: Tokenizer,
    *,
    length: int | None = None,
) -> Encoded:
    """Tokenise both sides of pairs on their own: a batch is all first texts, then all second; target: similarity."""
    require(bool(examples), "There are no examples.", BadInput)
    scored = {example.score is not None for example in examples}
    require(len(scored) == 1, "Some pairs have a score and some have none; give all of them one, or none.", BadInput)
    texts = [example.first for example in examples] + [example.second for example in examples]
    writer = _Fitting(tokenizer, length, pair=False)
    for ids in ids_of(tokenizer, texts):
        writer.add(ids, None)
    scores = {"similarity": np.array([example.score for example in examples], dtype=np.float32)}
    members = np.arange(len(texts)).reshape(2, -1).T
    return writer.done(members=members, targets=scores if scored == {True} else {}, by_column=True)


def encode_choices(
    examples: Sequence[ChoiceExample],
    tokenizer: Tokenizer,
    *,
    length: int | None = None,
) -> Encoded:
    """Tokenise each choice as a pair with its context; targets: choices (how many there are) and choice (the right)."""
    require(bool(examples), "There are no examples.", BadInput)
    known = {example.label is not None for example in examples}
    require(len(known) == 1, "Some questions have a label and some have none; give all of them one, or none.", BadInput)
    counts = np.array([len(example.choices) for example in examples], dtype=np.int64)
    texts = [example.context for example in examples] + [text for example in examples for text in example.choices]
    ids = ids_of(tokenizer, texts)
    writer = _Fitting(tokenizer, length, pair=True)
    for i, owner in enumerate(np.repeat(np.arange(len(examples)), counts).tolist()):
        writer.add(ids[owner], ids[len(examples) + i])
    places = np.arange(counts.max())
    members = np.where(places < counts[:, None], (np.cumsum(counts) - counts)[:, None] + places, -1)
    targets = {"choices": counts}
    if known == {True}:
        targets["choice"] = np.array([example.label for example in examples], dtype=np.int64)
    return writer.done(members=members, targets=targets)


class _Fitting:
    """A writer that cuts what does not fit, and counts it."""

    def __init__(self, tokenizer: Tokenizer, length: int | None, *, pair: bool) -> None:
        self._writer = Writer(tokenizer.template)
        specials = tokenizer.template.specials(pair=pair)
        self._room = None if length is None else length - specials
        least = 2 if pair else 1
        require(
            self._room is None or self._room >= least,
            f"Inputs of {length} tokens have no room for text: special tokens take {specials}.",
            InputTooLong,
        )
        self._shortened = 0

    def add(self, first: list[int], second: list[int] | None, capitals: list[list[int]] | None = None) -> None:
        room = self._room
        if room is not None and len(first) + len(second or ()) > room:
            self._shortened += 1
            if second is not None:
                second = second[: max(room - len(first), room // 2)]
            first = first[: room - len(second or ())]
        if capitals is not None:
            capitals = [kinds[: len(text)] for kinds, text in zip(capitals, (first, second or ()), strict=False)]
        self._writer.add(first, second, capitals=capitals)

    def done(
        self,
        *,
        targets: Arrays,
        members: NDArray[np.int64] | None = None,
        by_column: bool = False,
    ) -> Encoded:
        if self._shortened:
            log.warning("%d inputs were longer than the model takes and were cut.", self._shortened)
        return self._writer.done(members=members, targets=targets, by_column=by_column)


def _targets(given: Sequence[Label], labels: Labels | None) -> Arrays:
    kinds = {type(label) for label in given}
    require(len(kinds) == 1, f"Labels are of several kinds: {', '.join(sorted(k.__name__ for k in kinds))}.", BadInput)
    if kinds == {type(None)}:
        return {}
    if kinds == {float}:
        return {"scores": np.array(given, dtype=np.float32)}
    if labels is None:
        raise BadInput("The examples have classes; give the labels of the training data, made by Labels.of.")
    if kinds == {str}:
        return {"classes": labels.ids([str(label) for label in given])}
    several = np.zeros((len(given), len(labels)), dtype=np.float32)
    for row, names in enumerate(given):
        several[row, labels.ids(names if isinstance(names, tuple) else ())] = 1
    return {"classes": several}
