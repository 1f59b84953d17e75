"""Examples to tokens and targets: texts, pairs, choices, tagged words, answer spans, instructions."""

# N tokens of all sequences

import logging
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.dataset import Arrays, DatasetBuilder, TokenizedDataset, ids_and_capitals, ids_of, in_blocks
from clearhead.data.examples import (
    ChoiceExample,
    Label,
    Labels,
    PairExample,
    QuestionExample,
    TextExample,
    WordsExample,
)
from clearhead.data.formats import misplaced
from clearhead.data.pretraining import document_boundaries
from clearhead.errors import BadInput, InputTooLong, require
from clearhead.text.encoding import touching
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import cut, room_for, spans

log = logging.getLogger(__name__)


def encode_texts(
    examples: Sequence[TextExample], tokenizer: Tokenizer, labels: Labels | None = None, *, length: int | None = None
) -> TokenizedDataset:
    """Tokenise texts or pairs; targets: classes (E,), classes (E, L) where there are several each, or scores (E,).

    Inputs of more than `length` tokens are cut, the longer text of a pair first, and it is said how many.
    """
    pairs = {example.pair is not None for example in examples}
    require(len(pairs) == 1, "Give examples that are all single texts or all pairs, and at least one.", BadInput)
    targets = _targets([example.label for example in examples], labels)
    firsts = [example.text for example in examples]
    seconds = [example.pair for example in examples if example.pair is not None]
    ids, capitals = ids_and_capitals(tokenizer, firsts + seconds)
    builder = DatasetBuilder(tokenizer.template, length=length, pair=bool(seconds))
    for i in range(len(examples)):
        texts = slice(i, None, len(examples))  # the first, and the second if there is one
        first, *second = ids[texts]
        told = None if capitals is None else capitals[texts]
        builder.add(first, second[0] if second else None, capitals=told)
    return builder.build(targets=targets)


def encode_pairs(
    examples: Sequence[PairExample], tokenizer: Tokenizer, *, length: int | None = None
) -> TokenizedDataset:
    """Tokenise the texts of pairs on their own: a batch is all first, all second, and all negative ones if there are.

    Target: similarity, if the pairs have scores.
    """
    scored = _all_known([example.score for example in examples], "pairs have a score")
    columns = [[example.first for example in examples], [example.second for example in examples]]
    if _all_known([example.negative for example in examples], "pairs have a negative text"):
        columns.append([example.negative or "" for example in examples])
    builder = DatasetBuilder(tokenizer.template, length=length)
    for ids in in_blocks(tokenizer.ids_batch, chain.from_iterable(columns)):
        builder.add(ids)
    scores = {"similarity": np.array([example.score for example in examples], dtype=np.float32)}
    members = np.arange(len(columns) * len(examples)).reshape(len(columns), -1).T
    return builder.build(members=members, targets=scores if scored else {}, by_column=True)


def encode_choices(
    examples: Sequence[ChoiceExample], tokenizer: Tokenizer, *, length: int | None = None
) -> TokenizedDataset:
    """Tokenise each choice as a pair with its context; targets: choices (how many there are) and choice (the right)."""
    known = _all_known([example.label for example in examples], "questions have a label")
    counts = np.array([len(example.choices) for example in examples], dtype=np.int64)
    texts = [example.context for example in examples] + [text for example in examples for text in example.choices]
    ids = ids_of(tokenizer, texts)
    builder = DatasetBuilder(tokenizer.template, length=length, pair=True)
    for i, owner in enumerate(np.repeat(np.arange(len(examples)), counts).tolist()):
        builder.add(ids[owner], ids[len(examples) + i])
    places = np.arange(counts.max())
    members = np.where(places < counts[:, None], (np.cumsum(counts) - counts)[:, None] + places, -1)
    targets = {"choices": counts}
    if known:
        targets["choice"] = np.array([example.label for example in examples], dtype=np.int64)
    return builder.build(members=members, targets=targets)


def _all_known(labels: Sequence[object], what: str) -> bool:
    """Whether the examples have labels; that only some have is refused."""
    require(bool(labels), "There are no examples.", BadInput)
    known = {label is not None for label in labels}
    require(len(known) == 1, f"Some {what} and some have none; give all of them one, or none.", BadInput)
    return known == {True}


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


@dataclass(frozen=True)
class TagWindows:
    """Windows over sentences; `words` (N,) is the word of its sentence that a token speaks for, or -1."""

    encoded: TokenizedDataset
    owners: NDArray[np.int64]  # (E,) the sentence of each window
    words: NDArray[np.int32]  # (N,)
    sizes: NDArray[np.int64]  # words of each sentence


def encode_tags(
    examples: Sequence[WordsExample],
    tokenizer: Tokenizer,
    labels: Labels | None = None,
    *,
    length: int = 512,
    overlap: int | None = None,
) -> TagWindows:
    """Tokenise sentences of words; with labels, target: tags (N,), -100 where a token speaks for no word.

    A sentence longer than `length` tokens becomes several windows; each word is learnt where it has most context.
    """
    require(bool(examples), "There are no examples.", BadInput)
    builder = DatasetBuilder(tokenizer.template)
    owners: list[int] = []
    spoken: list[NDArray[np.int32]] = []
    tags: list[NDArray[np.int64]] = []
    for number, example in enumerate(examples, start=1):
        require(bool(example.words), f"Sentence {number} has no words.", BadInput)
        tagged = labels is None or example.tags is not None
        require(tagged, f"Sentence {number} has no tags; name the column that holds them.", BadInput)
    room = room_for(tokenizer.template, length)
    for i, pieces in enumerate(in_blocks(tokenizer.words_batch, [example.words for example in examples])):
        before: int | None = None  # goes on through windows: without overlap, one may start inside a word
        known = None if labels is None else labels.ids(examples[i].tags or (), f"Sentence {i + 1}")
        for window in cut(tokenizer.template, pieces, room, overlap):
            passage, encoding = window.passage, window.encoding
            words = np.full(len(encoding), -1, dtype=np.int32)
            for position in passage:
                word = encoding.words[position]
                if word is not None and word != before and position in window.best:
                    words[position] = word
                before = word
            spoken.append(words)
            owners.append(i)
            text = slice(passage.start, passage.stop)
            capitals = [encoding.segments[text]] if tokenizer.tells_capitals else None
            builder.add(encoding.ids[text], capitals=capitals)
            if known is not None:
                tags.append(np.where(words >= 0, known[words], IGNORE_INDEX))
    encoded = builder.build(token_targets={"tags": np.concatenate(tags)} if tags else {})
    sizes = np.array([len(example.words) for example in examples])
    return TagWindows(encoded, np.array(owners), np.concatenate(spoken), sizes)


def encode_answers(
    examples: Sequence[QuestionExample], tokenizer: Tokenizer, *, length: int = 384, overlap: int = 128
) -> TokenizedDataset:
    """Cut contexts into windows of at most `length` tokens with the question in front, as `text.windows` does.

    Targets: starts and ends (E,), both 0 where a window does not hold the answer whole; of several answers the first
    is learnt. Questions whose answer is not in the context where it says are left out. A very long question shrinks
    the overlap to half the room.
    """
    require(bool(examples), "There are no examples.", BadInput)
    unique = list(dict.fromkeys(example.context for example in examples))
    contexts = dict(zip(unique, in_blocks(tokenizer.pieces_batch, unique), strict=True))
    questions, capitals = ids_and_capitals(tokenizer, [example.question for example in examples])
    builder = DatasetBuilder(tokenizer.template)
    answers: list[tuple[int, int]] = []
    rejected: list[str] = []
    for i, (example, question) in enumerate(zip(examples, questions, strict=True)):
        context = contexts[example.context]
        first, last = -1, -2  # pieces of the answer, none where there is none
        if example.answers:
            text, start = example.answers[0]
            touched = touching(context.offsets, start, start + len(text))
            first, last = touched.start, touched.stop - 1
        if reason := _unusable(example, tokens=last - first + 1):
            rejected.append(f"{example.id!r}: {reason}")
            continue
        room = room_for(tokenizer.template, length, len(question))
        fault = f"{len(question)} tokens, which leaves no room for its context in windows of {length} tokens"
        require(room > 1, f"Question {example.id!r} has {fault}. Give longer windows, or take it out.", InputTooLong)
        for held, _ in spans(len(context), room, min(overlap, room // 2)):
            part = context.between(held.start, held.stop)
            told = None if capitals is None else [capitals[i], part.capitals or []]
            shift = builder.add(question, part.ids, capitals=told) - held.start
            holds = held.start <= first and last < held.stop
            answers.append((first + shift, last + shift) if holds else (0, 0))
    if rejected:
        require(bool(answers), f"No question can be learnt from; the first, {rejected[0]}.", BadInput)
        log.warning("%d questions cannot be learnt from and are left out; the first, %s.", len(rejected), rejected[0])
    starts, ends = np.array(answers, dtype=np.int64).T
    return builder.build(targets={"starts": starts, "ends": ends})


def _unusable(example: QuestionExample, tokens: int) -> str | None:
    """Why the first answer, of so many tokens, cannot be learnt; None if it can."""
    if example.impossible:
        return None
    if not example.answers:
        return "there is no answer, and it is not marked as impossible"
    text, start = example.answers[0]
    if wrong := misplaced(replace(example, answers=example.answers[:1])):
        return f"the answer {text!r} is not at character {start}, where {wrong[0][2]!r} stands"
    return None if tokens > 0 else f"the answer {text!r} has no tokens"


SEPARATOR = "\n"  # belongs to the answer, so that a model that is given a prompt alone begins a new line itself


def encode_instructions(examples: Sequence[PairExample], tokenizer: Tokenizer, *, length: int) -> TokenizedDataset:
    """Tokenise prompt, answer and end; token target `next`: the token after each if it is the answer's.

    Of what is longer than `length` tokens the beginning of the prompt is cut off, then the end of the answer.
    """
    require(length >= 3, f"Inputs of {length} tokens hold no prompt, answer and end; give 3 or more.")
    before, after = document_boundaries(tokenizer)
    texts = [one.first for one in examples] + [SEPARATOR + one.second.strip() for one in examples]
    pieces = ids_of(tokenizer, texts)
    builder, labels, shortened = DatasetBuilder(tokenizer.template), array("i"), 0
    for prompt, answer in zip(pieces[: len(examples)], pieces[len(examples) :], strict=True):
        answer = [*answer, after[0]]
        read = [*before, *prompt] or [after[0]]  # a prompt of nothing begins as a text does after another's end
        shortened += len(read) + len(answer) > length
        answer = answer[: length - 1]
        read = read[max(len(read) + len(answer) - length, 0) :]
        builder.add_ids([*read, *answer])
        labels.extend([IGNORE_INDEX] * (len(read) - 1) + answer + [IGNORE_INDEX])
    if shortened:
        log.warning("%d examples were longer than the model takes and were cut.", shortened)
    return builder.build(token_targets={"next": np.array(labels, dtype=np.int64)})
