"""The built-in model in Python: each use has the skill made for it; words and pictures have the encoder alone."""

import numpy as np
import pytest
import torch

import clearhead as ch
from built_in import SKILLS, TAGS
from clearhead.errors import NotFound, WrongTask
from clearhead.inside import why
from clearhead.pipelines.compat.pipeline import TASKS, pipeline
from clearhead.pipelines.multiple_choice import choose
from conftest import SENTENCES

TEXT, OTHER = SENTENCES[0], SENTENCES[3]
INPUTS = {
    "question-answering": {"question": "Who was tired?", "context": TEXT},
    "fill-mask": "wear a [MASK].",
    "zero-shot-classification": TEXT,
}
WRITING = {"summarization", "text-generation", "text2text-generation", "translation"}


@pytest.fixture
def model(built_in):
    return ch.load()


@pytest.mark.parametrize("task", sorted(set(TASKS) - WRITING))
def test_pipelines_take_the_skill_of_their_task(built_in, task):
    options = {"candidate_labels": ["animals", "money"]} if task.startswith("zero") else {}
    found = pipeline(task, **options)(INPUTS.get(task, TEXT))
    assert found or task in ("ner", "token-classification")


def test_text_to_text_needs_a_model_that_is_named(built_in):
    with pytest.raises(WrongTask):
        pipeline("text2text-generation")


def test_the_encoder_names_what_summarises_in_other_words(built_in):
    with pytest.raises(WrongTask, match=r"cannot write a summary; choose one that does: load\(\"builtin:gpt\"\)"):
        ch.load().summarise(TEXT, abstractive=True)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_without_the_model_a_pipeline_says_so(no_built_in, task):
    with pytest.raises(NotFound, match="has no built-in model"):
        pipeline(task)


def test_labels_are_those_of_the_skills(model):
    assert set(model.classify(TEXT).scores) == set(SKILLS["sentiment"][1])
    assert set(model.classify(TEXT, skill="spam").scores) == set(SKILLS["spam"][1])
    assert set(model.compare(TEXT, OTHER).scores) == set(SKILLS["inference"][1])
    assert {word.label for word in model.tag(TEXT).words} <= set(TAGS)
    assert repr(model).endswith(f"skills: {', '.join(sorted(SKILLS))})")


def test_texts_are_compared_by_their_vectors(model):
    similarity, plain = model.skill("similarity"), ch.Model(model.checkpoint)
    vectors = similarity.embed([TEXT, OTHER])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(model.embed([TEXT, OTHER]), vectors)
    assert not np.allclose(plain.embed([TEXT, OTHER], normalise=True), vectors, atol=1e-3)
    cosine = float(vectors[0] @ vectors[1])
    assert model.compare(TEXT, OTHER, skill="similarity").score == pytest.approx(cosine, abs=1e-5)
    many = model.compare(TEXT, iter([OTHER, TEXT]), skill="similarity")
    assert [one.score for one in many] == pytest.approx([cosine, 1], abs=1e-5)


def test_words_in_context_are_those_of_the_encoder_alone(model):
    texts = [SENTENCES[2], "the bank"]
    plain = ch.Model(model.checkpoint)
    assert np.array_equal(model.senses("bank", texts).cosines, plain.senses("bank", texts).cosines)
    assert (ch.trace(model, TEXT).output == ch.trace(plain, TEXT).output).all()


def test_what_follows_best_is_chosen_by_the_next_sentence_head(model):
    found = model.choose(TEXT, [OTHER, SENTENCES[1]])
    assert sum(found.scores) == pytest.approx(1)
    head = model.network.heads["next_sentence"].classifier
    before = found.scores
    head.weight.data, head.bias.data = head.weight.data.flip(0), head.bias.data.flip(0)
    assert model.choose(TEXT, [OTHER, SENTENCES[1]]).scores == pytest.approx(before[::-1], abs=1e-5)
    bare = ch.Model.create(model.config, model.tokenizer)
    with pytest.raises(WrongTask, match="cannot choose: it has no 'choice' head"):
        next(choose(bare, [(TEXT, [OTHER])]))


@pytest.mark.parametrize(
    ("given", "use"),
    [
        ({"text": TEXT}, "classify"),
        ({"text": TEXT, "pair": OTHER}, "classify"),
        ({"text": "wear a [MASK]."}, "fill"),
        ({"text": "Who was tired?", "pair": TEXT, "use": "answer"}, "answer"),
    ],
)
def test_answers_are_explained_with_the_skill_that_gave_them(model, given, use):
    data = why(model, **given).data
    assert data["use"] == use
    if use == "classify":
        assert data["answer"] in SKILLS["inference" if "pair" in given else "sentiment"][1]


def test_moving_the_model_moves_its_skills(model):
    model.classify(TEXT)
    again = model.to("cpu")
    assert again.classify(TEXT).label in SKILLS["sentiment"][1]


def test_skills_fit_the_encoder_in_another_type(built_in):
    small = ch.load(dtype=torch.bfloat16)
    assert next(small.skill("sentiment").network.parameters()).dtype == torch.bfloat16
    exact = ch.load()
    for one, other in zip(small.classify([TEXT, OTHER]), exact.classify([TEXT, OTHER]), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=0.05)
    assert small.embed(TEXT).shape == exact.embed(TEXT).shape
    assert set(ch.load(skill="spam", dtype=torch.bfloat16).classify(TEXT).scores) == {"ham", "spam"}
