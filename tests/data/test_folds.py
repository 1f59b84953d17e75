"""Every example is measured once, in folds that look alike."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from

from clearhead.data.examples import PairExample, QuestionExample, TextExample
from clearhead.data.folds import fold_of, split_fold
from clearhead.errors import BadInput


def texts(labels):
    return [TextExample(f"text {number}", None, label) for number, label in enumerate(labels)]


@given(lists(sampled_from("abc"), min_size=6, max_size=60), integers(2, 5), integers(0, 9))
def test_every_example_is_in_one_fold_and_classes_are_spread(labels, folds, seed):
    examples = texts([*labels, *"abc", *"abc"])
    held = [split_fold(examples, fold, folds, seed) for fold in range(folds)]
    assert sorted(one.text for _, part in held for one in part) == sorted(one.text for one in examples)
    assert all(len(train) + len(part) == len(examples) for train, part in held)
    assert not any(set(train) & set(part) for train, part in held)
    sizes = [len(part) for _, part in held]
    assert max(sizes) - min(sizes) <= 1
    for label in "abc":
        counts = [Counter(one.label for one in part)[label] for _, part in held]
        assert max(counts) - min(counts) <= 1


def test_folds_depend_on_the_seed_alone():
    examples = texts("ab" * 20)
    assert fold_of(examples, 4, 0).tolist() == fold_of(examples, 4, 0).tolist()
    assert fold_of(examples, 4, 0).tolist() != fold_of(examples, 4, 1).tolist()


def test_numbers_and_pairs_are_split_too():
    examples = [PairExample("a", str(i), i / 10) for i in range(10)]
    assert sorted(Counter(fold_of(examples, 3, 0).tolist()).values()) == [3, 3, 4]
    assert sorted(Counter(fold_of(texts([0.5] * 10), 5, 0).tolist()).values()) == [2] * 5


def test_questions_about_one_context_stay_together():
    examples = [QuestionExample(str(i), "?", f"context {i % 4}") for i in range(20)]
    parts = fold_of(examples, 2, 0)
    assert all(len({parts[i] for i in range(20) if i % 4 == context}) == 1 for context in range(4))
    assert sorted(Counter(parts.tolist()).values()) == [10, 10]
    with pytest.raises(BadInput, match="there are fewer contexts than 5 folds; choose fewer folds"):
        fold_of(examples, 5, 0)


def test_what_cannot_be_split():
    with pytest.raises(BadInput, match="7 folds of 4 examples: give 2 or more, and as many examples"):
        split_fold(texts("abab"), 0, 7, 0)
    with pytest.raises(BadInput, match="1 folds of 4 examples"):
        split_fold(texts("abab"), 0, 1, 0)
    with pytest.raises(BadInput, match="the label 'c' has one example, which cannot be learnt and measured both"):
        split_fold(texts("ababc"), 0, 2, 0)
