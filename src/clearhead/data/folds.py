"""Parts of a data set for cross-validation, of equal size and with the same share of every class."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from clearhead.data.batch import Ints
from clearhead.data.examples import Example, QuestionExample, TextExample
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput, require

Item = TypeVar("Item", bound=Example)


def split_fold(examples: Sequence[Item], fold: int, folds: int, seed: int) -> tuple[list[Item], list[Item]]:
    """What is learnt from and what is measured on in fold number `fold`, from 0, of `folds`."""
    require(
        2 <= folds <= len(examples),
        f"{folds} folds of {len(examples):,} examples: give 2 or more, and as many examples",
        BadInput,
    )
    parts = fold_of(examples, folds, seed)
    return (
        [example for example, part in zip(examples, parts, strict=True) if part != fold],
        [example for example, part in zip(examples, parts, strict=True) if part == fold],
    )


def fold_of(examples: Sequence[Example], folds: int, seed: int) -> Ints:
    """In which fold each example is measured, drawn from the seed.

    Classes are dealt out one after another, so that no fold has two more of one than another. Questions about one
    context stay together: a model that has read it knows it.
    """
    shuffled = rng(Stream.FOLDS, seed).permutation(len(examples))
    found = np.empty(len(examples), dtype=np.int64)
    contexts = [example.context for example in examples if isinstance(example, QuestionExample)]
    if contexts:
        sizes, owners, counted = [0] * folds, dict[str, int](), Counter(contexts)
        seen = dict.fromkeys(contexts[place] for place in shuffled)
        for context in sorted(seen, key=lambda one: -counted[one]):  # the large ones first, to the smallest fold
            owners[context] = smallest = sizes.index(min(sizes))
            sizes[smallest] += counted[context]
        require(min(sizes) > 0, f"there are fewer contexts than {folds} folds; choose fewer folds", BadInput)
        found[:] = [owners[context] for context in contexts]
        return found
    labels = [one.label if isinstance(one, TextExample) and isinstance(one.label, str) else "" for one in examples]
    counts = Counter(labels)
    rare = next((label for label, count in counts.items() if label and count < 2), None)
    alone = f"the label {rare!r} has one example, which cannot be learnt and measured both; give two, or leave it out"
    require(rare is None, alone, BadInput)
    dealt = sorted(shuffled.tolist(), key=lambda place: labels[place])
    found[dealt] = np.arange(len(examples)) % folds
    return found
