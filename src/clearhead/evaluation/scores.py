"""The metrics of each task: predictions beside what is right, whether a model made them or a file holds them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from clearhead.data.examples import (
    ChoiceExample,
    Example,
    Labels,
    PairExample,
    QuestionExample,
    TextExample,
    WordsExample,
)
from clearhead.data.tags import OUTSIDE, entity_type, scheme_of, scheme_of_labels, to_iob2
from clearhead.errors import BadInput, check_lengths, require
from clearhead.evaluation import squad
from clearhead.evaluation.classes import ClassScore, Confusion, calibration_error, class_scores, confusion
from clearhead.evaluation.conll import conlleval
from clearhead.evaluation.glue import accuracy, matthews, pearson, spearman
from clearhead.evaluation.retrieval import average_precision, ndcg, precision, recall, reciprocal_rank
from clearhead.evaluation.rouge import score_summaries as rouge_of_summaries

Metrics = dict[str, float]
Prediction = Mapping[str, Any]  # "predicted", and what a task has beside it, such as "score"
Known = Sequence[str] | None  # labels in their order, where a model has some


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What was measured: the metrics in percent, and what they are made of.

    `average` says which F1 it is: "binary" (of the class `positive`), "macro" (the mean of all classes), "micro" (over
    all decisions or spans). Of answers it is SQuAD's, of words.
    """

    metrics: Metrics
    average: str | None = None
    positive: str | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of 95 %, by the bootstrap
    classes: Mapping[str, ClassScore] = field(default_factory=dict)
    confusion: Confusion | None = None
    notes: Mapping[str, str] = field(default_factory=dict)  # such as sacrebleu's signatures
    unknown: Mapping[str, int] = field(default_factory=dict)  # labels that count as wrong, and how often
    predictions: Sequence[Prediction] = ()

    def named(self) -> Metrics:
        """The metrics by names that say which F1 it is."""
        return {self.name(name): value for name, value in self.metrics.items()}

    def name(self, metric: str) -> str:
        """A metric's name for people."""
        if metric != "f1" or self.average is None:
            return metric
        return f"f1 (positive class {self.positive})" if self.average == "binary" else f"f1 ({self.average})"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, without what is empty and without the predictions."""
        more = {
            **self.notes,
            "average": self.average,
            "positive": self.positive,
            "intervals": {name: list(ends) for name, ends in self.intervals.items()},
            "classes": {name: score.to_dict() for name, score in self.classes.items()},
            "confusion": None if self.confusion is None else self.confusion.to_dict(),
            "unknown_labels": dict(self.unknown),
        }
        return {**self.metrics, **{name: value for name, value in more.items() if value}}


def score_classes(examples: Sequence[TextExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """Accuracy and Matthews correlation; with two classes F1 of the second, else the mean F1 of those that occur.

    Where every prediction has a probability, the expected calibration error says whether it can be believed.
    """
    gold, predicted = _golds(examples), _predicted(rows, examples, str)
    right = [truth == guess for truth, guess in zip(gold, predicted, strict=True)]
    # a file may have other scores, or none
    scores = [one for row in rows if isinstance(one := row.get("score"), float) and 0 <= one <= 1]
    calibration = {"calibration_error": calibration_error(right, scores)} if len(scores) == len(right) else {}
    labels = _ordered(gold, predicted, known)
    classes = class_scores([[one] for one in gold], [[one] for one in predicted], labels)
    positive = labels[1] if len(known or labels) == 2 else None
    return Evaluated(
        metrics={
            "accuracy": 100 * accuracy(gold, predicted),
            "f1": _macro(classes) if positive is None else classes[positive].f1,
            "matthews": 100 * matthews(gold, predicted),
            **calibration,
        },
        average="macro" if positive is None else "binary",
        positive=positive,
        classes=classes,
        confusion=confusion(gold, predicted, labels),
    )


def score_labels(examples: Sequence[TextExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """Several classes at once: F1 over all decisions, and how often every one of a text's is right."""
    gold, predicted = _golds(examples), _predicted(rows, examples, list)
    labels = _ordered([one for names in gold for one in names], [one for names in predicted for one in names], known)
    classes = class_scores(gold, predicted, labels)
    total = ClassScore(*(sum(getattr(one, name) for one in classes.values()) for name in ("gold", "found", "correct")))
    exact = sum(set(truth) == set(guess) for truth, guess in zip(gold, predicted, strict=True))
    metrics = {"f1": total.f1, "exact": 100 * exact / len(gold)}
    return Evaluated(metrics=metrics, average="micro", classes=classes)


def score_numbers(
    examples: Sequence[TextExample | PairExample], rows: Sequence[Prediction], known: Known = None
) -> Evaluated:
    """Spearman and Pearson correlation of numbers with those of the data; nan where one side is constant."""
    gold, predicted = _golds(examples), _predicted(rows, examples, float)
    return Evaluated(metrics={"spearman": 100 * spearman(gold, predicted), "pearson": 100 * pearson(gold, predicted)})


def score_tags(examples: Sequence[WordsExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """Of entities: F1, precision and recall of spans, as conlleval has them; of plain tags: accuracy and mean F1.

    Tags of another scheme are read in that of the data; an entity ends with its sentence.
    """
    for example, row in zip(examples, _checked(rows, examples), strict=True):
        tags = row["predicted"]
        fits = isinstance(tags, list | tuple) and len(tags) == len(example.words)
        require(fits, f"{example.where} has {len(example.words)} words; give as many tags, not {tags!r}", BadInput)
    scheme = scheme_of([example for example in examples if _gold(example)])
    said = known or {tag for row in rows for tag in row["predicted"]}
    if {tag for example in examples for tag in _gold(example)} == {OUTSIDE}:  # then the other side tells
        scheme = scheme_of_labels(said)
    gold, predicted = [], []
    for example, row in zip(examples, rows, strict=True):
        ends = list(accumulate(example.sentences or [len(example.words)]))
        for start, end in pairwise([0, *ends]):
            gold.append(list(_gold(example))[start:end])
            predicted.append(_in_scheme(list(row["predicted"])[start:end], plain=scheme == "plain"))
    if scheme not in ("plain", scheme_of_labels(said)):
        gold, predicted = [to_iob2(tags) for tags in gold], [to_iob2(tags) for tags in predicted]
    flat = [tag for tags in gold for tag in tags], [tag for tags in predicted for tag in tags]
    labels = _ordered(*flat, None if known is None else ())
    table = confusion(*flat, labels)
    if scheme != "plain":
        spans = conlleval(gold, predicted)
        return Evaluated(metrics=spans.metrics(), average="micro", classes=spans.types, confusion=table)
    classes = class_scores([[tag] for tag in flat[0]], [[tag] for tag in flat[1]], labels)
    metrics = {"accuracy": 100 * accuracy(*flat), "f1": _macro(classes)}
    return Evaluated(metrics=metrics, average="macro", classes=classes, confusion=table)


def _in_scheme(tags: list[str], *, plain: bool) -> list[str]:
    """Entities without a prefix where the data has some, and the other way round."""
    if plain:
        return [entity_type(tag) for tag in tags]
    return [f"I-{tag}" if tag != OUTSIDE and tag == entity_type(tag) and len(tag) > 1 else tag for tag in tags]


def score_choices(examples: Sequence[ChoiceExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """How often the right one is chosen."""
    return Evaluated(metrics={"accuracy": 100 * accuracy(_golds(examples), _predicted(rows, examples, int))})


def score_answers(examples: Sequence[QuestionExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """SQuAD's exact match and F1; with unanswerable questions, SQuAD 2.0's, with candidates also the best threshold."""
    golds = squad.golds_of(examples)
    named = {example.id: row for example, row in zip(examples, _checked(rows, examples), strict=True)}
    if all("candidates" in row for row in rows):
        lists = {name: [squad.ScoredText(*one) for one in row["candidates"]] for name, row in named.items()}
        threshold = rows[0].get("threshold", 0.0) if rows else 0.0
        return Evaluated(metrics=squad.score_nbest(golds, lists, threshold))
    texts = dict(zip(named, _predicted(rows, examples, str), strict=True))
    scored = squad.squad1(golds, texts) if all(golds.values()) else squad.squad2(golds, texts)
    return Evaluated(metrics=scored)


def score_search(examples: Sequence[TextExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """Rank each query's passages by their scores, over the queries with a relevant one."""
    relevant, run = relevant_queries(examples), dict[str, dict[str, float]]()
    for number, (example, row) in enumerate(zip(examples, _checked(rows, examples), strict=True)):
        if example.text in relevant:
            (score,) = _predicted([row], [example], float)
            run.setdefault(example.text, {})[str(number)] = score
    return Evaluated(
        metrics={
            "mrr": 100 * reciprocal_rank(relevant, run),
            "map": 100 * average_precision(relevant, run),
            "ndcg_10": 100 * ndcg(relevant, run, 10),
            "recall_10": 100 * recall(relevant, run, 10),
            "precision_1": 100 * precision(relevant, run, 1),
            "queries": len(relevant),
        }
    )


def relevant_queries(examples: Sequence[TextExample]) -> dict[str, dict[str, int]]:
    """How relevant each passage is, by its number, to the queries that have a relevant one."""
    judged: dict[str, dict[str, int]] = {}
    for number, example in enumerate(examples):
        judged.setdefault(example.text, {})[str(number)] = int(_gold(example))
    relevant = {query: grades for query, grades in judged.items() if any(grade > 0 for grade in grades.values())}
    require(bool(relevant), "no query has a relevant passage; give data with labels above 0", BadInput)
    return relevant


def score_instructions(examples: Sequence[PairExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """How many answers are the right one, and F1 of their words."""
    pairs = list(zip((one.second.strip() for one in examples), _predicted(rows, examples, str), strict=True))
    exact = 100 * math.fsum(gold == found for gold, found in pairs) / len(pairs)
    overlap = 100 * math.fsum(squad.f1(gold, found) for gold, found in pairs) / len(pairs)
    return Evaluated(metrics={"exact": exact, "f1": overlap})


def score_summaries(examples: Sequence[PairExample], rows: Sequence[Prediction], known: Known = None) -> Evaluated:
    """ROUGE."""
    return Evaluated(metrics=rouge_of_summaries([one.second for one in examples], _predicted(rows, examples, str)))


def asked(example: Example) -> dict[str, Any]:
    """What a model was asked, as a file of predictions shows it."""
    match example:
        case TextExample(text, pair):
            return {"text": text} if pair is None else {"text": text, "pair": pair}
        case WordsExample(words):
            return {"words": list(words)}
        case QuestionExample(id=name, question=question):
            return {"id": name, "question": question}
        case ChoiceExample(context, choices):
            return {"text": context, "choices": list(choices)}
        case PairExample(first, second, score):
            return {"text": first} if score is None else {"text": first, "pair": second}


def gold_of(example: Example) -> Any:
    """What is right, as a prediction would say it."""
    match example:
        case QuestionExample(answers=answers):
            return [text for text, _ in answers]
        case PairExample(second=second, score=None):
            return second
        case PairExample(score=score):
            return score
        case WordsExample(tags=tags):
            return None if tags is None else list(tags)
        case _:
            return list(example.label) if isinstance(example.label, tuple) else example.label


def is_unlabelled(example: Example) -> bool:
    """Whether nobody says what is right, as in a test set: also of a question that is not said to have no answer."""
    if isinstance(example, QuestionExample):
        return not example.answers and not example.impossible
    return gold_of(example) is None


def _gold(example: Any) -> Any:
    """The label, the score or the tags of an example, which must have some."""
    found = getattr(example, {WordsExample: "tags", PairExample: "score"}.get(type(example), "label"))
    where = f"{example.where} has" if example.where else "the examples have"
    require(found is not None, f"{where} no right answer to compare with; give data with labels", BadInput)
    return found


def _golds(examples: Sequence[Any]) -> list[Any]:
    return [_gold(example) for example in examples]


def _checked(rows: Sequence[Prediction], examples: Sequence[Example]) -> Sequence[Prediction]:
    check_lengths(examples, rows)
    return rows


def _predicted(rows: Sequence[Prediction], examples: Sequence[Example], kind: type) -> list[Any]:
    """The predictions, one for each example, of this type."""
    return list(_of_type(_checked(rows, examples), kind))


def _of_type(rows: Sequence[Prediction], kind: type) -> Iterator[Any]:
    for number, row in enumerate(rows, start=1):
        value = row.get("predicted")
        fits = type(value) in (int, float) if kind is float else isinstance(value, kind)
        require(fits, f"prediction {number} is {value!r}, which is no {kind.__name__}", BadInput)
        yield float(value) if kind is float else value  # type: ignore[arg-type]


def _ordered(gold: Sequence[str], predicted: Sequence[str], known: Known) -> tuple[str, ...]:
    """The labels in their order, a model's own first, then those that occur beside them.

    Without a model, predictions that share no label with the data are of another data set: a zero would mislead.
    """
    own = tuple(known or ())
    there = known is not None or not gold or not predicted or bool(set(gold) & set(predicted))
    fault = f"no label of the data (such as {', '.join(sorted(set(gold))[:5])}) is predicted"
    require(there, f"{fault}, only others (such as {', '.join(sorted(set(predicted))[:5])}); rename one side", BadInput)
    others = {*gold, *predicted}.difference(own)
    return own + (Labels.of(others).names if others else ())


def _macro(classes: Mapping[str, ClassScore]) -> float:
    """The mean F1 of the classes that occur, on either side."""
    there = [score.f1 for score in classes.values() if score.gold or score.found]
    return math.fsum(there) / len(there)
