"""A model on the examples of a task: its answers, and the official figures of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.errors import BadInput, require
from clearhead.evaluation.conll import conlleval
from clearhead.evaluation.glue import accuracy, f1, matthews, pearson, spearman
from clearhead.evaluation.squad import golds_of, squad1, squad2
from clearhead.pipelines.answer import Answer
from clearhead.pipelines.choose import Choice
from clearhead.pipelines.model import Model
from clearhead.pipelines.tag import Tagged

Figures = dict[str, float]


def evaluate_classes(model: Model, examples: Sequence[TextExample]) -> Figures:
    """Accuracy and Matthews correlation in percent; with two classes F1 of the second, else the mean F1 of all."""
    gold = [_known(example.label) for example in examples]
    predicted = [found.label for found in model.classify(_inputs(examples))]
    labels = model.labels or tuple(sorted(set(gold)))
    scored = labels[1:] if len(labels) == 2 else labels
    return {
        "accuracy": 100 * accuracy(gold, predicted),
        "f1": 100 * float(np.mean([f1(gold, predicted, positive=label) for label in scored])),
        "matthews": 100 * matthews(gold, predicted),
    }


def evaluate_labels(model: Model, examples: Sequence[TextExample], threshold: float = 0.5) -> Figures:
    """Several classes at once: F1 over all decisions, and how often every one of a text's is right, in percent."""
    right = found = true = exact = 0
    for example, result in zip(examples, model.classify(_inputs(examples)), strict=True):
        gold = set(_known(example.label))
        chosen = {label for label, score in result.scores.items() if score > threshold}
        right, found, true = right + len(gold & chosen), found + len(chosen), true + len(gold)
        exact += gold == chosen
    return {"f1": 200 * right / max(1, found + true), "exact": 100 * exact / len(examples)}


def evaluate_scores(model: Model, examples: Sequence[TextExample]) -> Figures:
    """Pearson and Spearman correlation of a regression, in percent."""
    gold = [_known(example.label) for example in examples]
    predicted = [found.score for found in model.classify(_inputs(examples))]
    return {"spearman": 100 * spearman(gold, predicted), "pearson": 100 * pearson(gold, predicted)}


def evaluate_tags(model: Model, examples: Sequence[WordsExample]) -> Figures:
    """Precision, recall and F1 of spans, and accuracy of tags, as conlleval has them."""
    gold = [list(_known(example.tags)) for example in examples]
    predicted = []
    tagged: list[Tagged] = model.tag([list(example.words) for example in examples])
    for example, found in zip(examples, tagged, strict=True):
        labels = {word.start: word.label for word in found.words}
        starts = np.cumsum([0, *(len(word) + 1 for word in example.words[:-1])]).tolist()
        predicted.append([labels.get(start, "O") for start in starts])
    score = conlleval(gold, predicted)
    overall = score.overall
    figures = {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}
    return {**figures, "accuracy": score.accuracy}


def evaluate_answers(model: Model, examples: Sequence[QuestionExample]) -> Figures:
    """SQuAD's exact match and F1; with unanswerable questions, SQuAD 2.0's, and the best threshold to abstain."""
    abstains = any(example.impossible for example in examples)
    questions, contexts = [example.question for example in examples], [example.context for example in examples]
    found: list[Answer] = model.answer(questions, contexts, threshold=math.inf, whole_words=False)
    texts = {example.id: answer.text or "" for example, answer in zip(examples, found, strict=True)}
    golds = golds_of(examples)
    if not abstains:
        return squad1(golds, texts)
    margins = {example.id: min(answer.margin, 1e6) for example, answer in zip(examples, found, strict=True)}
    return squad2(golds, texts, margins, threshold=0.0)


def evaluate_choices(model: Model, examples: Sequence[ChoiceExample]) -> Figures:
    """How often the right one is chosen, in percent."""
    found: list[Choice] = model.choose([(example.context, example.choices) for example in examples])
    gold = [_known(example.label) for example in examples]
    return {"accuracy": 100 * accuracy(gold, [choice.index for choice in found])}


def evaluate_similarity(model: Model, examples: Sequence[PairExample]) -> Figures:
    """Spearman and Pearson correlation of the vectors' cosines with the scores, in percent."""
    first = model.embed([example.first for example in examples], normalise=True)
    second = model.embed([example.second for example in examples], normalise=True)
    gold = [_known(example.score) for example in examples]
    cosines = (first * second).sum(-1).tolist()
    return {"spearman": 100 * spearman(gold, cosines), "pearson": 100 * pearson(gold, cosines)}


# by the names of the tasks on the command line
EVALUATIONS: dict[str, Callable[[Model, Any], Figures]] = {
    "classify": evaluate_classes,
    "label": evaluate_labels,
    "regress": evaluate_scores,
    "tag": evaluate_tags,
    "answer": evaluate_answers,
    "choose": evaluate_choices,
    "similar": evaluate_similarity,
}


def _inputs(examples: Sequence[TextExample]) -> list[str | tuple[str, str]]:
    return [example.text if example.pair is None else (example.text, example.pair) for example in examples]


def _known(gold: Any) -> Any:
    require(gold is not None, "the examples have no right answers to compare with; give data with labels", BadInput)
    return gold
