"""Why this answer: the methods do what their papers say, and the curve tells the good from the bad."""

from dataclasses import replace

import pytest
import torch
from captum.attr import IntegratedGradients
from torch.testing import assert_close

from clearhead.errors import BadInput, InputTooLong, WrongTask
from clearhead.inside import why
from clearhead.inside.attribution import (
    METHODS,
    STEPS,
    _replaced,
    attention,
    class_target,
    follows_target,
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
    rolled_out,
    rollout,
    span_target,
    token_target,
)
from clearhead.inside.faithfulness import Curve, deletion, random_deletion
from clearhead.inside.trace import trace
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from inside.models import small

TEXT = "the animal was too tired"
LABELS = ("no", "yes", "perhaps")


def classifier(family="bert"):
    return small(family, head="classes", outputs=3, labels=LABELS)


def pretrained():
    return small(head="next_sentence", outputs=2)


TARGETS = {
    "class": lambda: class_target(classifier(), TEXT),
    "class of a pair": lambda: class_target(classifier(), TEXT, "he sat on the bank", "yes"),
    "class, mean of tokens, rotary": lambda: class_target(classifier("modernbert"), TEXT),
    "class, factorised": lambda: class_target(classifier("albert"), TEXT),
    "class, last token": lambda: class_target(classifier("gpt2"), TEXT),
    "class, last token, distances": lambda: class_target(classifier("xlnet"), TEXT),
    "token": lambda: token_target(small(), "the [MASK] was too tired"),
    "follows": lambda: follows_target(pretrained(), TEXT, "he sat on the bank"),
    "span": lambda: span_target(small(head="span", outputs=2), "where?", "he sat on the bank of the river"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_integrated_gradients_are_complete(name):
    """They add up to the difference between the text and the text with everything hidden."""
    target = TARGETS[name]()
    found = integrated_gradients(target)
    logits, _ = target.scores(torch.stack([target.ids, target.masked(target.maskable)]))
    gain = float(logits[0] - logits[1])
    assert float(found.sum()) == pytest.approx(gain, abs=0.02 * max(1.0, abs(gain)))
    special = [i for i in range(len(target.ids)) if i not in target.maskable]
    assert_close(found[special], torch.zeros(len(special)))


@pytest.mark.parametrize("name", TARGETS)
def test_integrated_gradients_are_those_of_captum(name):
    target = TARGETS[name]()
    start, end = target.vectors(target.masked(target.maskable)), target.vectors(target.ids)

    def logit(vectors):
        with _replaced(target.model.encoder.embeddings.token, vectors.flatten(0, 1)):
            return target._chosen(target._tables(target.ids.expand(len(vectors), -1))).sum(0)

    theirs = IntegratedGradients(logit).attribute(
        end[None], start[None], n_steps=STEPS, method="riemann_middle", internal_batch_size=8
    )
    assert_close(integrated_gradients(target), theirs[0].sum(-1).float().detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TARGETS)
def test_leave_one_out_is_the_loss_of_one_token(name):
    target = TARGETS[name]()
    place = target.maskable[1]
    ids = target.ids.clone()
    ids[place] = target.baseline_id
    (full,), (without,) = target.scores(target.ids[None])[0], target.scores(ids[None])[0]
    assert float(leave_one_out(target)[place]) == pytest.approx(float(full - without), abs=1e-4)


def test_gradient_times_input_is_the_slope():
    """A small step away from the token's vector changes the logit as the number says."""
    target = TARGETS["class"]()
    vectors = target.vectors(target.ids)
    found, place, step = gradient_times_input(target), target.maskable[2], 1e-2
    less, more = vectors.clone(), vectors.clone()
    less[place] *= 1 - step
    more[place] *= 1 + step
    logits, _ = target.gradient(torch.stack([less, more]))
    assert float(logits[1] - logits[0]) / (2 * step) == pytest.approx(float(found[place]), abs=5e-3)


def test_rollout_rows_sum_to_one():
    layers = trace(classifier(), TEXT).layers
    flow = rolled_out(layers)
    assert_close(flow.sum(-1), torch.ones(len(flow)))
    half = [(layer.weights.mean(0) + torch.eye(len(flow))) / 2 for layer in layers]
    assert_close(flow, half[3] @ half[2] @ half[1] @ half[0])
    assert_close(rollout(TARGETS["class"]()), flow[0])


@pytest.mark.parametrize(("family", "place"), [("bert", 0), ("gpt2", -1), ("xlnet", -1)])
def test_the_place_that_a_head_reads_is_the_one_that_moves_its_classes(family, place):
    target = class_target(classifier(family), TEXT)
    hidden = torch.randn(len(target.ids), 32, requires_grad=True)
    (gradient,) = torch.autograd.grad(target.read(hidden, Packed.of([len(hidden)]))[0].sum(), hidden)
    assert target.read_at == gradient.any(-1).nonzero().flatten().tolist() == [place % len(hidden)]


def test_attention_is_read_where_the_head_reads():
    last = trace(classifier(), TEXT).layers[-1].weights.mean(0)
    assert_close(attention(TARGETS["class"]()), last[0])
    decoder = trace(classifier("gpt2"), TEXT).layers[-1].weights.mean(0)
    assert_close(attention(TARGETS["class, last token"]()), decoder[-1])
    everywhere = trace(classifier("modernbert"), TEXT).layers[-1].weights.mean(0)
    assert_close(attention(class_target(classifier("modernbert"), TEXT)), everywhere.mean(0))


def test_the_answers_are_the_models_own():
    assert TARGETS["class"]().answer == classifier().classify(TEXT).label
    target = TARGETS["class"]()
    assert float(target.scores(target.ids[None])[1]) == pytest.approx(classifier().classify(TEXT).score, abs=1e-5)
    best = small().fill("the [MASK] was too tired", top_k=1).predictions[0]
    token = TARGETS["token"]()
    assert token.answer == best.token
    assert float(token.scores(token.ids[None])[1]) == pytest.approx(best.score, abs=1e-5)
    context = "he sat on the bank of the river"
    span = TARGETS["span"]()
    assert span.answer == small(head="span", outputs=2).answer("where?", context, threshold=float("inf")).text
    told = pretrained().follows(TEXT, "he sat on the bank")
    verdict = TARGETS["follows"]()
    assert verdict.answer == ("it follows" if told.follows else "it does not")
    assert float(verdict.scores(verdict.ids[None])[1]) == pytest.approx(
        max(told.probability, 1 - told.probability), abs=1e-5
    )
    named = span_target(small(head="span", outputs=2), "where?", context, "the bank")
    assert named.answer == "the bank"


def test_several_labels_at_once_have_each_their_own_probability():
    checkpoint = classifier().checkpoint
    description = replace(checkpoint.description, problem="multi_label_classification")
    several = Model(replace(checkpoint, description=description))
    target = class_target(several, TEXT, label="perhaps")
    expected = several.classify(TEXT).scores["perhaps"]
    assert float(target.scores(target.ids[None])[1]) == pytest.approx(expected, abs=1e-5)


def test_explaining_leaves_the_model_as_it_was():
    model = classifier()
    before = model.classify(TEXT).scores
    why(model, TEXT)
    assert model.classify(TEXT).scores == before
    assert all(parameter.grad is None for parameter in model.network.parameters())
    assert not any(part._forward_hooks for part in model.network.modules())


def test_deletion_hides_the_highest_first():
    target = TARGETS["class"]()
    scores = torch.arange(len(target.ids), dtype=torch.float32)
    curve = deletion(target, scores)
    order = sorted(target.maskable, reverse=True)
    expected = [float(target.scores(target.masked(order[:n])[None])[1]) for n in range(len(order) + 1)]
    assert curve.probabilities == pytest.approx(expected, abs=1e-5)
    assert curve.shares == [n / len(order) for n in range(len(order) + 1)]
    assert random_deletion(target) == random_deletion(target)


def test_the_area_is_the_mean_height():
    assert Curve([0.0, 0.5, 1.0], [1.0, 0.5, 0.0]).area == pytest.approx(0.5)
    assert Curve([0.0, 1.0], [0.3, 0.3]).area == pytest.approx(0.3)


def test_long_texts_have_a_point_for_each_tenth():
    target = class_target(classifier(), "the bank " * 15)
    curve = deletion(target, torch.rand(len(target.ids)))
    assert curve.shares == pytest.approx([tenth / 10 for tenth in range(11)], abs=0.02)
    assert (curve.shares[0], curve.shares[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("model", "texts", "options", "answer"),
    [
        (classifier, (TEXT,), {"target": "perhaps"}, "perhaps"),
        (small, ("the [MASK] was tired",), {"use": "fill", "target": "bank"}, "bank"),
        (lambda: small(head="span", outputs=2), ("who?", "he sat on the bank"), {"target": "bank"}, "bank"),
        (pretrained, (TEXT, "he sat on the bank"), {"target": "it does not"}, "it does not"),
    ],
)
def test_the_view_holds_every_method_and_a_verdict(model, texts, options, answer):
    data = why(model(), *texts, **options).data
    assert data["answer"] == answer
    assert list(data["methods"]) == list(METHODS)
    assert "no explanation" in data["note"]
    areas = {name: method["area"] for name, method in data["methods"].items()}
    if data["faithful"] is None:
        assert min(areas.values()) >= data["random"]["area"]
    else:
        assert areas[data["faithful"]] == min(areas.values())
    assert {method["curve"][0] for method in data["methods"].values()} == {data["probability"]}


def test_an_answer_has_the_probability_that_question_answering_gives_it():
    model, context = small(head="span", outputs=2), "he sat on the bank of the river"
    best, *others = model.answer("where?", context, threshold=float("inf"), top_k=5).candidates
    assert why(model, "where?", context).data["stated"] == round(best.score, 4)
    other = next(one for one in others if context.find(one.text) == one.start)
    assert why(model, "where?", context, target=other.text).data["stated"] == round(other.score, 4)
    assert why(small(head="classes", outputs=2), TEXT).data["stated"] is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: why(classifier(), TEXT, target="maybe"), BadInput, "label 'maybe' is not known; choose no, yes"),
        (lambda: why(small(), TEXT), BadInput, "There is no mask in"),
        (lambda: why(small(), "a [MASK]", "b"), BadInput, "leave out the second text"),
        (lambda: why(pretrained(), TEXT), BadInput, "told of two texts; give the second"),
        (lambda: why(pretrained(), TEXT, "he", target="no"), BadInput, "choose 'it follows' or 'it does not'"),
        (lambda: why(small(head=None), TEXT), WrongTask, "no answer to explain"),
        (lambda: why(classifier(), TEXT, use="fill"), WrongTask, "cannot fill"),
        (lambda: why(classifier(), TEXT, use="guess"), BadInput, "use='guess' is not known"),
        (lambda: why(classifier(), ""), BadInput, "the text is empty"),
        (lambda: why(classifier(), "the " * 80), InputTooLong, "82 tokens and the model 64 positions"),
        (lambda: why(small(head="span", outputs=2), "who?"), BadInput, "needs a context"),
        (lambda: why(small(head="span", outputs=2), "who?", "he", target="she"), BadInput, "'she' does not stand"),
        (lambda: why(small(head="classes", outputs=1), TEXT), WrongTask, "a number, not a class"),
    ],
)
def test_what_cannot_be_explained_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
