"""Answers in files, scored without the model that gave them, as the official scripts do."""

from collections.abc import Sequence
from pathlib import Path

from clearhead.data.examples import QuestionExample
from clearhead.errors import BadInput, require
from clearhead.evaluation.files import read_nbest, read_no_answer, read_predictions
from clearhead.evaluation.nbest import LISTED, oracle, score_nbest
from clearhead.evaluation.squad import golds_of, squad1, squad2


def score_files(
    examples: Sequence[QuestionExample],
    *,
    predictions: Path | None = None,
    nbest: Path | None = None,
    no_answer: Path | None = None,
) -> dict[str, float]:
    """Score a file of predictions, with or without no-answer probabilities, or a file of candidates.

    By SQuAD 1.1, or by 2.0 where a question has no answer. Of candidates also what the best of each list would give.
    """
    golds = golds_of(examples)
    if nbest is not None:
        alone = predictions is None and no_answer is None
        require(alone, "a file of --nbest is scored alone; leave --predictions and --no-answer out", BadInput)
        lists = read_nbest(nbest)
        best = oracle(golds, lists, LISTED)
        return {**score_nbest(golds, lists), "oracle_exact": best["exact"], "oracle_f1": best["f1"]}
    if predictions is None:
        raise BadInput("--no-answer goes with the answers to score; name them with --predictions FILE")
    texts = read_predictions(predictions)
    if no_answer is None and all(golds.values()):
        return squad1(golds, texts)
    return squad2(golds, texts, None if no_answer is None else read_no_answer(no_answer))
