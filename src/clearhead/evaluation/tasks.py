"""A model on the examples of a task: its answers, and the official metrics of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.data.report import check_known
from clearhead.decoding.config import GenerationConfig
from clearhead.evaluation import scores, squad
from clearhead.evaluation.bootstrap import Resample, by_example, by_query, by_question, intervals
from clearhead.evaluation.scores import (
    Evaluated,
    Known,
    Metrics,
    Prediction,
    asked,
    gold_of,
    is_unlabelled,
    relevant_queries,
)
from clearhead.evaluation.translation import by_translation, score_translations
from clearhead.io import Progress, in_wholes
from clearhead.models import RECURRENT_FAMILIES
from clearhead.nn.decoder import EncoderDecoder
from clearhead.pipelines.classification import Classes
from clearhead.pipelines.ensemble import Ensemble
from clearhead.pipelines.model import Model
from clearhead.pipelines.multiple_choice import Choice
from clearhead.pipelines.question_answering import Answer
from clearhead.pipelines.results import Summary
from clearhead.pipelines.token_classification import Tagged
from clearhead.pipelines.translation import rewrite, told_languages

__all__ = ["EVALUATIONS", "Evaluated", "Evaluation", "Metrics"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How a model does a task, and how what it did is scored.

    Both can stand alone: `predict` gives a row for each example, `score` takes rows from wherever they come.
    """

    predict: Callable[..., list[dict[str, Any]]]
    score: Callable[..., Evaluated]
    head: tuple[str, str] | None = None  # a use of the model and its head, where labels must be known
    resample: Resample = by_example  # how a bootstrap draws

    def __call__(
        self,
        model: Model | Ensemble,
        examples: Any,
        *,
        progress: Progress | None = None,
        allow_unknown: bool = False,
        unlabelled: bool = False,
        bootstrap: int = 0,
        **options: Any,
    ) -> Evaluated:
        """Measure; `progress` is told how many more examples, and samples, are done, `options` are those of `predict`.

        Labels that the model does not know are refused before anything is computed, or counted as wrong and said.
        With `unlabelled`, examples may have none at all, as a test set has: then nothing is scored. For `bootstrap` see
        `measured`.
        """
        blind = unlabelled and all(is_unlabelled(example) for example in examples)
        labels = None if self.head is None else _labels(model, *self.head)
        known = labels is None or blind
        unknown = {} if known else check_known(examples, labels or (), "the model", allow=allow_unknown)
        rows = self.predict(model, examples, progress=progress, **options)
        if blind:
            found = Evaluated(metrics={})
        else:
            found = self.measured(examples, rows, labels, bootstrap=bootstrap, progress=progress)
        told = [
            {**asked(example), "gold": gold_of(example), **row} for example, row in zip(examples, rows, strict=True)
        ]
        return replace(found, unknown=unknown, predictions=told)

    def measured(
        self,
        examples: Sequence[Any],
        rows: Sequence[Prediction],
        known: Known = None,
        *,
        bootstrap: int = 0,
        progress: Progress | None = None,
    ) -> Evaluated:
        """Score what a model or a file said; with `bootstrap`, an interval of each metric over so many samples.

        `progress` is told how many more samples are done.
        """
        found = self.score(examples, rows, known)
        if not bootstrap:
            return found
        drawn = self.resample(self.score, examples, rows, known)
        return replace(found, intervals=intervals(drawn, found.metrics, bootstrap, progress=progress))

    def rehearse(self, examples: Sequence[Any], labels: Sequence[str] | None = None) -> Evaluated:
        """Score what is right as if a model had said it: what cannot be measured is found out before training."""
        rows: list[Prediction] = []
        for example in examples:
            gold = gold_of(example)
            if isinstance(example, QuestionExample):  # any of several answers, or none
                gold = gold[0] if gold else ""
                rows.append({"predicted": gold, "candidates": [(gold, 1.0), ("", 0.0)]})
            else:
                rows.append({"predicted": gold, "score": 1.0})
        return self.score(examples, rows, labels)


def _labels(model: Model | Ensemble, use: str, head: str) -> tuple[str, ...] | None:
    """The labels that the model can give; None where it has not the head, which its use will say."""
    able = model.able(use)
    if able.labels is not None or head not in able.network.heads:
        return able.labels
    outputs = able.network.heads[head].get_parameter("classifier.weight").shape[0]
    return tuple(f"LABEL_{i}" for i in range(outputs))


def predict_answers(
    model: Model, examples: Sequence[QuestionExample], *, top_k: int = 1, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The `top_k` best answers of each question, and the empty one with the score of no answer.

    What the model would not answer, by its own threshold, is predicted as empty.
    """
    threshold = model.able("answer").checkpoint.description.threshold
    questions, contexts = [example.question for example in examples], [example.context for example in examples]
    found: list[Answer] = model.answer(
        questions, contexts, top_k=top_k, threshold=math.inf, whole_words=False, progress=progress
    )
    lists = {}
    for example, answer in zip(examples, found, strict=True):
        spans = [squad.ScoredText(one.text, one.logit) for one in answer.candidates]
        nothing = squad.ScoredText("", answer.null_score)
        lists[example.id] = sorted([*spans, nothing], key=lambda one: -one.score)
    # a test set says of no question whether it has an answer, so that the model decides as in SQuAD 2.0
    golds = {example.id: [text for text, _ in example.answers] for example in examples}
    texts = squad.predictions_of(golds, lists, threshold)
    rows = []
    for example, answer in zip(examples, found, strict=True):
        text = texts[example.id]
        score = next((one.score for one in answer.candidates if one.text == text), answer.score)
        found_in = {"candidates": lists[example.id], "threshold": threshold}
        rows.append({"predicted": text, "score": score, **found_in})
    return rows


def predict_classes(
    model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The best class of each text or pair."""
    return [{"predicted": one.label, "score": one.score} for one in _classify(model, examples, progress)]


def predict_labels(
    model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Every class that is more likely than not."""
    return [
        {"predicted": [label for label, score in one.scores.items() if score > 0.5], "scores": one.scores}
        for one in _classify(model, examples, progress)
    ]


def predict_scores(
    model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The number of a regression."""
    return [{"predicted": one.score} for one in _classify(model, examples, progress)]


def _classify(model: Model, examples: Sequence[TextExample], progress: Progress | None) -> list[Classes]:
    inputs = [example.text if example.pair is None else (example.text, example.pair) for example in examples]
    return model.classify(inputs, progress=progress)


def predict_tags(
    model: Model, examples: Sequence[WordsExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """A tag for each word."""
    tagged: list[Tagged] = model.tag([list(example.words) for example in examples], progress=progress)
    rows = []
    for example, found in zip(examples, tagged, strict=True):
        by_start = {word.start: word for word in found.words}
        starts = np.cumsum([0, *(len(word) + 1 for word in example.words[:-1])]).tolist()
        words = [by_start.get(start) for start in starts]
        tags = ["O" if word is None else word.label for word in words]
        rows.append({"predicted": tags, "score": [0.0 if word is None else word.score for word in words]})
    return rows


def predict_choices(
    model: Model, examples: Sequence[ChoiceExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Which of the choices, counted from 0."""
    found: list[Choice] = model.choose([(example.context, example.choices) for example in examples], progress=progress)
    return [{"predicted": one.index, "score": one.score} for one in found]


def predict_similarity(
    model: Model, examples: Sequence[PairExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The cosine of the vectors of each pair."""
    progress = in_wholes(progress, 2 * len(examples), len(examples))
    first = model.embed([example.first for example in examples], normalise=True, progress=progress)
    second = model.embed([example.second for example in examples], normalise=True, progress=progress)
    return [{"predicted": cosine} for cosine in (first * second).sum(-1).tolist()]


def predict_search(
    model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The cosine of each query and passage; none where the query has no relevant passage, and is not counted."""
    relevant = relevant_queries(examples)
    pairs = [(one.text, one.pair or "") if one.text in relevant else None for one in examples]
    texts = list(dict.fromkeys(text for pair in pairs if pair is not None for text in pair))
    progress = in_wholes(progress, len(texts), len(examples))
    found = model.able("search").embed(texts, normalise=True, progress=progress)
    vectors = dict(zip(texts, found, strict=True))
    return [{"predicted": None if pair is None else float(vectors[pair[0]] @ vectors[pair[1]])} for pair in pairs]


def predict_instructions(
    model: Model, examples: Sequence[PairExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Write an answer to each prompt, greedily."""
    prompts, golds = [example.first for example in examples], [example.second.strip() for example in examples]
    longest = max(map(len, model.tokenizer.ids_batch(golds))) + 8  # one that is still going on is wrong by then
    written = model.generate(prompts, max_new_tokens=longest, progress=progress)
    return [{"predicted": one.text.strip(), "score": one.score} for one in written]


def predict_summaries(
    model: Model, examples: Sequence[PairExample], *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Summaries: in an encoder–decoder's own words, else the sentences that say most of a text, a line for each."""
    abstractive = model.family in RECURRENT_FAMILIES or isinstance(model.encoder, EncoderDecoder)
    rows = []
    for found in model.summarise((example.first for example in examples), abstractive=abstractive):
        # rougeLsum takes a line as a sentence
        rows.append(
            {"predicted": "\n".join(one.text for one in found.sentences) if isinstance(found, Summary) else found.text}
        )
        if progress is not None:
            progress(1)
    return rows


def predict_translations(
    model: Model, examples: Sequence[PairExample], *, num_beams: int = 5, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Translate each source as one sentence, whatever it holds."""
    config = GenerationConfig(num_beams=num_beams)
    sources = [example.first for example in examples]
    generator, _ = told_languages(model.generator, None, None)
    found = rewrite(generator, sources, config, suffix=model.translation_suffix, whole=True, progress=progress)
    return [{"predicted": best.text} for best, *_ in found]


# by the names of the tasks on the command line
EVALUATIONS: dict[str, Evaluation] = {
    "classify": Evaluation(predict=predict_classes, score=scores.score_classes, head=("classify", "classes")),
    "label": Evaluation(predict=predict_labels, score=scores.score_labels, head=("classify", "classes")),
    "regress": Evaluation(predict=predict_scores, score=scores.score_numbers),
    "tag": Evaluation(predict=predict_tags, score=scores.score_tags, head=("tag", "tags")),
    "answer": Evaluation(predict=predict_answers, score=scores.score_answers, resample=by_question),
    "choose": Evaluation(predict=predict_choices, score=scores.score_choices),
    "similar": Evaluation(predict=predict_similarity, score=scores.score_numbers),
    "search": Evaluation(predict=predict_search, score=scores.score_search, resample=by_query),
    "instruct": Evaluation(predict=predict_instructions, score=scores.score_instructions),
    "summaries": Evaluation(predict=predict_summaries, score=scores.score_summaries),
    "translation": Evaluation(predict=predict_translations, score=score_translations, resample=by_translation),
}
