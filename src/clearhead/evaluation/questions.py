"""A model on SQuAD's questions: its answers, into files if asked, and the official figures of them."""

import math
from collections.abc import Sequence
from pathlib import Path

from clearhead.data.examples import QuestionExample
from clearhead.evaluation.files import write_nbest, write_predictions
from clearhead.evaluation.nbest import LISTED, Candidate, predictions_of, score_nbest
from clearhead.evaluation.squad import golds_of
from clearhead.pipelines.answer import Answer
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.model import Model


def evaluate_answers(
    model: Model,
    examples: Sequence[QuestionExample],
    *,
    predictions: Path | None = None,
    nbest: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """SQuAD's exact match and F1; with unanswerable questions, SQuAD 2.0's, and the best threshold to abstain.

    The files named are written: `predictions` with one text for each question, `nbest` with the best candidates.
    """
    golds = golds_of(examples)
    lists = candidates_of(model, examples, top=1 if nbest is None else LISTED, progress=progress)
    if predictions is not None:
        write_predictions(predictions, predictions_of(golds, lists))
    if nbest is not None:
        write_nbest(nbest, lists)
    return score_nbest(golds, lists)


def candidates_of(
    model: Model, examples: Sequence[QuestionExample], *, top: int, progress: Progress | None = None
) -> dict[str, list[Candidate]]:
    """Answer each question: its best candidates, and the empty one with the score of no answer, best first."""
    questions, contexts = [example.question for example in examples], [example.context for example in examples]
    found: list[Answer] = model.answer(
        questions, contexts, top=top, threshold=math.inf, whole_words=False, progress=progress
    )
    lists = {}
    for example, answer in zip(examples, found, strict=True):
        spans = [Candidate(one.text, one.logit) for one in answer.candidates]
        lists[example.id] = sorted([*spans, Candidate("", answer.null_score)], key=lambda one: -one.score)
    return lists
