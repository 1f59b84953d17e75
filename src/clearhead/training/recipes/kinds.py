"""The tasks that a model can be fine-tuned for: how each reads its data, what it learns, and how it is measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clearhead.data.answers import encode_answers
from clearhead.data.collate import encode_choices, encode_pairs, encode_texts
from clearhead.data.encoded import Encoded
from clearhead.data.instruct import encode_instructions, read_instructions
from clearhead.data.labels import Labels
from clearhead.data.readers import a_score, read_texts, some_classes
from clearhead.data.tags import encode_tags
from clearhead.errors import BadConfig, BadInput, WrongTask, require
from clearhead.evaluation.tasks import EVALUATIONS, Figures
from clearhead.models.gpt import Gpt2
from clearhead.nn.heads import SentenceVector
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer
from clearhead.training.recipes.reading import (
    Columns,
    asked_questions,
    judged_passages,
    offered_choices,
    similar_pairs,
    tagged_words,
)
from clearhead.training.task import Task
from clearhead.training.tasks import (
    Choose,
    Classify,
    ClassifyAndContinue,
    Contrast,
    CosineRegression,
    FindSpans,
    MultiLabel,
    NextToken,
    Regress,
    SimilarityOrder,
    TagTokens,
)

Read = Callable[[Path | str, Columns], list[Any]]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What an objective may be told; a kind that does not know an option refuses it."""

    class_weights: bool = False  # rare classes weigh more, in inverse proportion to their number
    label_smoothing: float = 0.0
    ranking: bool = False  # similar: learn the order of the scores, not the scores themselves
    lm_weight: float = 0.0  # classify with GPT-2: how much the next tokens count beside the class, 0.5 as published

    def __post_init__(self) -> None:
        smoothing = self.label_smoothing
        require(0 <= smoothing < 1, f"label_smoothing is a share in [0, 1), got {smoothing}", BadConfig)
        weight = self.lm_weight
        require(0 <= weight < math.inf, f"lm_weight must be finite and not negative, got {weight}", BadConfig)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of task. `head` is None where the encoder itself is trained."""

    read: Read
    labels: Callable[[Sequence[Any]], Labels | None]
    encode: Callable[[Sequence[Any], Tokenizer, Labels | None, int], Encoded]
    task: Callable[[Model, Encoded, Options], Task]
    head: str | None
    outputs: Callable[[Labels | None], int]
    problem: str | None = None
    options: tuple[str, ...] = ()  # those of `Options` that it knows
    capitals: bool = False  # whether its data can tell them

    def prepare(self, model: Model, labels: Labels | None) -> Model:
        """Put the head of this kind on the model's encoder."""
        if self.head is None:
            return model
        names = None if labels is None else labels.names
        return model.with_head(self.head, self.outputs(labels), labels=names, problem=self.problem)


def evaluate(name: str, model: Model, examples: Sequence[Any]) -> Figures:
    """Measure a model on the examples of a kind."""
    return EVALUATIONS[name](model, examples)


def _classes(examples: Sequence[Any]) -> Labels:
    found = Labels.of(example.label for example in examples)
    require(len(found) > 1, f"all examples have the label {found.names[0]!r}; give data with two or more", BadInput)
    return found


def _told(model: Model, encoded: Encoded, target: str, options: Options) -> dict[str, Any]:
    """What a choice of classes is told; weights are in inverse proportion to the counts, 1 on average over examples."""
    weights = None
    if options.class_weights:
        classes = {**encoded.targets, **encoded.token_targets}[target]
        counts = np.bincount(classes[classes >= 0], minlength=len(model.labels or ()))
        weights = torch.from_numpy(counts.sum() / (len(counts) * np.maximum(counts, 1))).float()
    return {"class_weights": weights, "label_smoothing": options.label_smoothing}


def _classify(model: Model, encoded: Encoded, options: Options) -> Task:
    told = _told(model, encoded, "classes", options)
    if not options.lm_weight:
        return Classify(model.network, **told)
    family = model.checkpoint.description.family
    require(
        isinstance(model.encoder, Gpt2), f"lm_weight is for gpt2, which reads forwards; this is {family}", WrongTask
    )
    return ClassifyAndContinue(model.network, weight=options.lm_weight, **told)


def _tag(model: Model, encoded: Encoded, options: Options) -> Task:
    return TagTokens(model.network, **_told(model, encoded, "tags", options))


def _similar(model: Model, encoded: Encoded, options: Options) -> Task:
    vector = model.checkpoint.sentence or SentenceVector("mean")
    if "similarity" in encoded.targets:
        return (SimilarityOrder if options.ranking else CosineRegression)(model.network, vector)
    require(not options.ranking, "ranking=true needs pairs with scores; these have none", BadInput)
    return Contrast(model.network, vector)


def _instruct(model: Model, *_: Any) -> Task:
    family = model.checkpoint.description.family
    hint = f"{family} reads a source; train it with: finetune translation --text prompt --pair answer"
    require(isinstance(model.encoder, Gpt2), hint, WrongTask)
    return NextToken(model.network)


KINDS: dict[str, Kind] = {
    "classify": Kind(
        read=lambda source, columns: list(read_texts(source, **columns)),
        labels=_classes,
        encode=lambda examples, tokenizer, labels, length: encode_texts(examples, tokenizer, labels, length=length),
        task=_classify,
        head="classes",
        outputs=lambda labels: len(labels or ()),
        problem="single_label_classification",
        options=("class_weights", "label_smoothing", "lm_weight"),
        capitals=True,
    ),
    "label": Kind(
        read=lambda source, columns: list(read_texts(source, parse=some_classes, **columns)),
        labels=lambda examples: Labels.of(label for example in examples for label in example.label),
        encode=lambda examples, tokenizer, labels, length: encode_texts(examples, tokenizer, labels, length=length),
        task=lambda model, *_: MultiLabel(model.network),
        head="classes",
        outputs=lambda labels: len(labels or ()),
        problem="multi_label_classification",
        capitals=True,
    ),
    "regress": Kind(
        read=lambda source, columns: list(read_texts(source, parse=a_score, **columns)),
        labels=lambda _: None,
        encode=lambda examples, tokenizer, _, length: encode_texts(examples, tokenizer, length=length),
        task=lambda model, *_: Regress(model.network),
        head="classes",
        outputs=lambda _: 1,
        problem="regression",
        capitals=True,
    ),
    "tag": Kind(
        read=tagged_words,
        labels=lambda examples: Labels.of(tag for example in examples for tag in example.tags),
        encode=lambda examples, tokenizer, labels, length: (
            encode_tags(examples, tokenizer, labels, length=length).encoded
        ),
        task=_tag,
        head="tags",
        outputs=lambda labels: len(labels or ()),
        options=("class_weights", "label_smoothing"),
        capitals=True,
    ),
    "answer": Kind(
        read=asked_questions,
        labels=lambda _: None,
        encode=lambda examples, tokenizer, _, length: encode_answers(examples, tokenizer, length=length),
        task=lambda model, *_: FindSpans(model.network),
        head="span",
        outputs=lambda _: 2,
        capitals=True,
    ),
    "choose": Kind(
        read=offered_choices,
        labels=lambda _: None,
        encode=lambda examples, tokenizer, _, length: encode_choices(examples, tokenizer, length=length),
        task=lambda model, *_: Choose(model.network),
        head="choice",
        outputs=lambda _: 1,
    ),
    "similar": Kind(
        read=similar_pairs,
        labels=lambda _: None,
        encode=lambda examples, tokenizer, _, length: encode_pairs(examples, tokenizer, length=length),
        task=_similar,
        head=None,
        outputs=lambda _: 0,
        options=("ranking",),
    ),
    "instruct": Kind(
        read=lambda source, columns: read_instructions(source, text=columns.get("text"), pair=columns.get("pair")),
        labels=lambda _: None,
        encode=lambda examples, tokenizer, _, length: encode_instructions(examples, tokenizer, length=length),
        task=_instruct,
        head="causal_lm",
        outputs=lambda _: 0,
    ),
}

# what can be measured: all that can be learnt, and search, which needs no training of its own
READERS: dict[str, Read] = {**{name: kind.read for name, kind in KINDS.items()}, "search": judged_passages}
