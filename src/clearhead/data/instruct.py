"""Prompts and answers for instruction tuning: the prompt is read, the answer is learnt."""

# N tokens of all sequences

import logging
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clearhead.data.columns import choose, open_table
from clearhead.data.encoded import Encoded, ids_of
from clearhead.data.examples import PairExample
from clearhead.data.following import NOTHING
from clearhead.data.readers import strings
from clearhead.data.running import round_a_document
from clearhead.errors import BadInput, require
from clearhead.text.tokenizer import Tokenizer

PROMPTS = ("prompt", "instruction", "question", "input")
ANSWERS = ("answer", "output", "response", "completion")
SEPARATOR = "\n"  # belongs to the answer, so that a model that is given a prompt alone begins a new line itself

log = logging.getLogger(__name__)


def read_instructions(source: str | Path, *, text: str | None = None, pair: str | None = None) -> list[PairExample]:
    """Read prompts (column `text`, or a usual name) and their answers (`pair`) from a table or the hub."""
    table = open_table(source)
    prompt, answer = choose(table, "prompt", text, PROMPTS), choose(table, "answer", pair, ANSWERS)
    if prompt is None or answer is None:
        there = ", ".join(map(repr, table.columns))
        raise BadInput(f"{table.name} has no prompt and answer among its columns {there}; name them.")
    answers = strings(table, answer)
    empty = next((row for row, one in enumerate(answers) if not one.strip()), None)
    require(empty is None, f"{table.where(empty or 0)} has an empty answer; fill it, or leave it out.", BadInput)
    return list(map(PairExample, strings(table, prompt), answers))


def encode_instructions(examples: Sequence[PairExample], tokenizer: Tokenizer, *, length: int) -> Encoded:
    """Tokenise prompt, answer and end; token target `next`: the token after each if it is the answer's, else NOTHING.

    Of what is longer than `length` tokens the beginning of the prompt is cut off, then the end of the answer.
    """
    require(length >= 3, f"Inputs of {length} tokens hold no prompt, answer and end; give 3 or more.")
    before, after = round_a_document(tokenizer)
    texts = [one.first for one in examples] + [SEPARATOR + one.second.strip() for one in examples]
    pieces = ids_of(tokenizer, texts)
    ids, labels, ends, shortened = array("i"), array("i"), [0], 0
    for prompt, answer in zip(pieces[: len(examples)], pieces[len(examples) :], strict=True):
        answer = [*answer, after[0]]
        read = [*before, *prompt] or [after[0]]  # a prompt of nothing begins as a text does after another's end
        shortened += len(read) + len(answer) > length
        answer = answer[: length - 1]
        read = read[max(len(read) + len(answer) - length, 0) :]
        ids.extend([*read, *answer])
        labels.extend([NOTHING] * (len(read) - 1) + answer + [NOTHING])
        ends.append(len(ids))
    if shortened:
        log.warning("%d examples were longer than the model takes and were cut.", shortened)
    members = np.arange(len(examples)).reshape(-1, 1)
    targets = {"next": np.array(labels, dtype=np.int64)}
    offsets = np.array(ends, dtype=np.int64)
    return Encoded(np.array(ids, dtype=np.int32), offsets, None, members, token_targets=targets)
