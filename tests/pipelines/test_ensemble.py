"""An ensemble gives the mean of its models' probabilities, and of one model what that model says."""

import math
from statistics import fmean

import pytest
import torch

from clearhead.data.examples import ChoiceExample, QuestionExample, TextExample
from clearhead.errors import BadInput
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.models.bert import BertConfig
from clearhead.pipelines.ensemble import Ensemble
from clearhead.pipelines.model import Model
from conftest import SENTENCES
from data.small import tokenizer

CONTEXT = " ".join(SENTENCES)


def made(seed, labels=("no", "yes"), heads=None, problem=None):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(seed)
    config = BertConfig(max_position_embeddings=256, initializer_range=0.5, **sizes)
    plain = Model.create(config, tokenizer())
    (name, outputs), *_ = (heads or {"classes": len(labels or ())}).items()
    return plain.with_head(name, outputs, labels=labels, problem=problem)


def test_classes_are_the_mean_by_their_names():
    models = made(0), made(1, labels=("yes", "no")), made(2)
    texts = [*SENTENCES, (SENTENCES[0], SENTENCES[1])]
    found = Ensemble(models).able("classify").classify(texts)
    for one, *alone in zip(found, *(model.classify(texts) for model in models), strict=True):
        for label in ("no", "yes"):
            assert one.scores[label] == pytest.approx(fmean(own.scores[label] for own in alone))
        assert one.label == max(one.scores, key=one.scores.get) == next(iter(one.scores))
        assert one.score == one.scores[one.label]


def test_numbers_and_choices_are_the_mean():
    models = [made(seed, ("score",), problem="regression") for seed in range(2)]
    (found,) = Ensemble(tuple(models)).classify([SENTENCES[0]])
    assert found.score == pytest.approx(fmean(model.classify(SENTENCES[0]).score for model in models))
    models = [made(seed, None, {"choice": 1}) for seed in range(2)]
    questions = [(SENTENCES[0], SENTENCES[1:3]), (SENTENCES[2], SENTENCES)]
    for one, *alone in zip(
        Ensemble(tuple(models)).choose(questions), *(model.choose(questions) for model in models), strict=True
    ):
        assert one.scores == pytest.approx([fmean(pair) for pair in zip(*(own.scores for own in alone), strict=True)])
        assert one.index == one.scores.index(max(one.scores))


def test_spans_are_joined_by_their_places():
    models = [made(seed, None, {"span": 2}) for seed in range(2)]
    questions, contexts = ["Who?", "What was it?"], [CONTEXT, SENTENCES[0]]
    found = Ensemble(tuple(models)).answer(questions, contexts, top_k=3, threshold=math.inf)
    for number, one in enumerate(found):
        alone = [model.answer(questions[number], contexts[number], top_k=20, threshold=math.inf) for model in models]
        assert len(one.candidates) == 3
        for candidate in one.candidates:
            same = [
                span.score
                for own in alone
                for span in own.candidates
                if (span.start, span.end) == (candidate.start, candidate.end)
            ]
            assert candidate.score == pytest.approx(sum(same) / 2, rel=1e-5)
            assert contexts[number][candidate.start : candidate.end] == candidate.text


QUESTIONS = [
    QuestionExample("1", "Who?", CONTEXT, answers=((SENTENCES[0][:10], 0),)),
    QuestionExample("2", "What?", SENTENCES[0], impossible=True),
]


@pytest.mark.parametrize(
    ("task", "model", "examples"),
    [
        ("classify", made(0), [TextExample(SENTENCES[0], label="no"), TextExample(SENTENCES[1], label="yes")]),
        ("choose", made(0, None, {"choice": 1}), [ChoiceExample(SENTENCES[0], tuple(SENTENCES[1:3]), label=0)]),
        ("answer", made(0, None, {"span": 2}), QUESTIONS),
    ],
)
def test_one_model_alone_or_twice_is_itself(task, model, examples):
    wanted, told = EVALUATIONS[task](model, examples).metrics, []
    for count in (1, 2):
        found = EVALUATIONS[task](Ensemble((model,) * count), examples, progress=told.append)
        kept = {name: value for name, value in found.metrics.items() if not name.endswith("thresh")}
        assert kept == pytest.approx({name: wanted[name] for name in kept})
    assert sum(told) == 2 * len(examples)


def test_models_of_other_labels_are_refused():
    with pytest.raises(BadInput, match="the first model tells no, yes apart, model 2 a, b; an ensemble has one set"):
        Ensemble((made(0), made(1, labels=("a", "b")))).able("classify")
