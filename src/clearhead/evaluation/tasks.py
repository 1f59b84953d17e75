"""A model on the examples of a task: its answers, and the official metrics of them."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.errors import BadInput, require
from clearhead.evaluation import squad
from clearhead.evaluation.conll import conlleval
from clearhead.evaluation.glue import accuracy, f1, matthews, pearson, spearman
from clearhead.evaluation.perplexity import evaluate_texts
from clearhead.evaluation.retrieval import average_precision, ndcg, precision, recall, reciprocal_rank
from clearhead.evaluation.rouge import score_summaries, write_summaries
from clearhead.io import Progress, in_wholes
from clearhead.models import RECURRENT_FAMILIES
from clearhead.nn.decoder import EncoderDecoder
from clearhead.pipelines.classification import Classes
from clearhead.pipelines.model import Model
from clearhead.pipelines.multiple_choice import Choice
from clearhead.pipelines.question_answering import Answer
from clearhead.pipelines.token_classification import Tagged

Metrics = dict[str, float]


class Evaluation(Protocol):
    """A model on examples; `progress` is told how many more of them are done."""

    def __call__(self, model: Model, examples: Any, /, *, progress: Progress | None = None) -> Metrics:
        """Give the metrics by their names."""


def evaluate_answers(
    model: Model,
    examples: Sequence[QuestionExample],
    *,
    predictions: Path | None = None,
    nbest: Path | None = None,
    progress: Progress | None = None,
) -> Metrics:
    """SQuAD's exact match and F1; with unanswerable questions, SQuAD 2.0's, and the best threshold to abstain.

    The files named are written: `predictions` with one text for each question, `nbest` with the best candidates.
    """
    golds = squad.golds_of(examples)
    questions, contexts = [example.question for example in examples], [example.context for example in examples]
    top = 1 if nbest is None else squad.LISTED
    found: list[Answer] = model.answer(
        questions, contexts, top_k=top, threshold=math.inf, whole_words=False, progress=progress
    )
    lists = {}  # of each question the best candidates, and the empty one with the score of no answer
    for example, answer in zip(examples, found, strict=True):
        spans = [squad.ScoredText(one.text, one.logit) for one in answer.candidates]
        lists[example.id] = sorted([*spans, squad.ScoredText("", answer.null_score)], key=lambda one: -one.score)
    if predictions is not None:
        squad.write_predictions(predictions, squad.predictions_of(golds, lists))
    if nbest is not None:
        squad.write_nbest(nbest, lists)
    return squad.score_nbest(golds, lists)


def evaluate_classes(model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None) -> Metrics:
    """Accuracy and Matthews correlation in percent; with two classes F1 of the second, else the mean F1 of all."""
    gold = [_known(example.label) for example in examples]
    predicted = [found.label for found in _classify(model, examples, set(gold), progress)]
    labels = model.labels or tuple(sorted(set(gold)))
    scored = labels[1:] if len(labels) == 2 else labels
    return {
        "accuracy": 100 * accuracy(gold, predicted),
        "f1": 100 * float(np.mean([f1(gold, predicted, positive=label) for label in scored])),
        "matthews": 100 * matthews(gold, predicted),
    }


def evaluate_labels(model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None) -> Metrics:
    """Several classes at once: F1 over all decisions, and how often every one of a text's is right, in percent."""
    golds = [set(_known(example.label)) for example in examples]
    right = found = true = exact = 0
    for gold, result in zip(golds, _classify(model, examples, set().union(*golds), progress), strict=True):
        chosen = {label for label, score in result.scores.items() if score > 0.5}
        right, found, true = right + len(gold & chosen), found + len(chosen), true + len(gold)
        exact += gold == chosen
    return {"f1": 200 * right / max(1, found + true), "exact": 100 * exact / len(examples)}


def evaluate_scores(model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None) -> Metrics:
    """Pearson and Spearman correlation of a regression, in percent."""
    gold = [_known(example.label) for example in examples]
    predicted = [found.score for found in _classify(model, examples, set(), progress)]
    return {"spearman": 100 * spearman(gold, predicted), "pearson": 100 * pearson(gold, predicted)}


def evaluate_tags(model: Model, examples: Sequence[WordsExample], *, progress: Progress | None = None) -> Metrics:
    """Precision, recall and F1 of spans, and accuracy of tags, as conlleval has them."""
    gold: list[list[str]] = []
    predicted: list[list[str]] = []
    tagged: list[Tagged] = model.tag([list(example.words) for example in examples], progress=progress)
    for example, found in zip(examples, tagged, strict=True):
        labels = {word.start: word.label for word in found.words}
        starts = np.cumsum([0, *(len(word) + 1 for word in example.words[:-1])]).tolist()
        given = [labels.get(start, "O") for start in starts]
        # an entity ends with its sentence, also where a whole document was tagged at once
        ends = list(accumulate(example.sentences or [len(given)]))
        for start, end in pairwise([0, *ends]):
            gold.append(list(_known(example.tags)[start:end]))
            predicted.append(given[start:end])
    return conlleval(gold, predicted).metrics()


def evaluate_choices(model: Model, examples: Sequence[ChoiceExample], *, progress: Progress | None = None) -> Metrics:
    """How often the right one is chosen, in percent."""
    gold = [_known(example.label) for example in examples]
    questions = [(example.context, example.choices) for example in examples]
    found: list[Choice] = model.choose(questions, progress=progress)
    return {"accuracy": 100 * accuracy(gold, [choice.index for choice in found])}


def evaluate_similarity(model: Model, examples: Sequence[PairExample], *, progress: Progress | None = None) -> Metrics:
    """Spearman and Pearson correlation of the vectors' cosines with the scores, in percent."""
    gold = [_known(example.score) for example in examples]
    progress = in_wholes(progress, 2 * len(examples), len(examples))
    first = model.embed([example.first for example in examples], normalise=True, progress=progress)
    second = model.embed([example.second for example in examples], normalise=True, progress=progress)
    cosines = (first * second).sum(-1).tolist()
    return {"spearman": 100 * spearman(gold, cosines), "pearson": 100 * pearson(gold, cosines)}


def evaluate_search(model: Model, examples: Sequence[TextExample], *, progress: Progress | None = None) -> Metrics:
    """Rank each query's passages by the cosine of their vectors; in percent, over the queries with a relevant one."""
    judged: dict[str, dict[str, int]] = {}
    for number, example in enumerate(examples):
        judged.setdefault(example.text, {})[str(number)] = _known(example.label)
    relevant = {query: grades for query, grades in judged.items() if any(grade > 0 for grade in grades.values())}
    require(bool(relevant), "no query has a relevant passage; give data with labels above 0", BadInput)
    pairs = {str(n): (one.text, one.pair or "") for n, one in enumerate(examples) if one.text in relevant}
    texts = list(dict.fromkeys(text for pair in pairs.values() for text in pair))
    progress = in_wholes(progress, len(texts), len(examples))
    vectors = dict(zip(texts, model.embed(texts, normalise=True, progress=progress), strict=True))
    run: dict[str, dict[str, float]] = {}
    for name, (query, passage) in pairs.items():
        run.setdefault(query, {})[name] = float(vectors[query] @ vectors[passage])
    return {
        "mrr": 100 * reciprocal_rank(relevant, run),
        "map": 100 * average_precision(relevant, run),
        "ndcg_10": 100 * ndcg(relevant, run, 10),
        "recall_10": 100 * recall(relevant, run, 10),
        "precision_1": 100 * precision(relevant, run, 1),
        "queries": len(relevant),
    }


def evaluate_instructions(
    model: Model, examples: Sequence[PairExample], *, progress: Progress | None = None
) -> Metrics:
    """Write an answer to each prompt, greedily: how many are the right one, and F1 of their words, in percent."""
    prompts, golds = [example.first for example in examples], [example.second.strip() for example in examples]
    longest = max(map(len, model.tokenizer.ids_batch(golds))) + 8  # one that is still going on is wrong by then
    written = [one.text.strip() for one in model.generate(prompts, max_new_tokens=longest, progress=progress)]
    pairs = list(zip(golds, written, strict=True))
    return {
        "exact": 100 * sum(gold == found for gold, found in pairs) / len(pairs),
        "f1": 100 * sum(squad.f1(gold, found) for gold, found in pairs) / len(pairs),
    }


def evaluate_summaries(
    model: Model, examples: Sequence[PairExample], *, predictions: Path | None = None, progress: Progress | None = None
) -> Metrics:
    """ROUGE of summaries: in an encoder–decoder's own words, else the three sentences that say most of a text.

    `predictions`: a .jsonl file that the summaries are written to.
    """
    abstractive = model.family in RECURRENT_FAMILIES or isinstance(model.encoder, EncoderDecoder)
    written: list[str] = []
    for found in model.summarise((example.first for example in examples), abstractive=abstractive):
        written.append(found.text)
        if progress is not None:
            progress(1)
    if predictions is not None:
        write_summaries(predictions, written)
    return score_summaries([example.second for example in examples], written)


# by the names of the tasks on the command line
EVALUATIONS: dict[str, Evaluation] = {
    "classify": evaluate_classes,
    "label": evaluate_labels,
    "regress": evaluate_scores,
    "tag": evaluate_tags,
    "answer": evaluate_answers,
    "choose": evaluate_choices,
    "similar": evaluate_similarity,
    "search": evaluate_search,
    "instruct": evaluate_instructions,
    "perplexity": evaluate_texts,
    "summaries": evaluate_summaries,
}


def _classify(
    model: Model, examples: Sequence[TextExample], gold: set[str], progress: Progress | None
) -> list[Classes]:
    """Classify; data that name their classes otherwise are refused, since a zero would look like a bad model."""
    inputs = [example.text if example.pair is None else (example.text, example.pair) for example in examples]
    results = model.classify(inputs, progress=progress)
    if results and gold:
        known = results[0].scores.keys()
        message = f"no label of the data ({', '.join(sorted(gold))}) is one of the model's ({', '.join(known)})"
        require(bool(gold & known), f"{message}; rename those of the data", BadInput)
    return results


def _known(gold: Any) -> Any:
    require(gold is not None, "the examples have no right answers to compare with; give data with labels", BadInput)
    return gold
