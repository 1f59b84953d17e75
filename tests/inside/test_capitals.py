"""A model that is told capitals: its segments are their kinds, and pages still know which text a token is from."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import WrongTask
from clearhead.inside import summed_input, through_layers, why
from clearhead.inside.attribution import class_target, token_target
from clearhead.inside.trace import trace, trace_ids
from inside.models import small, telling

PAIR = ("Be alert!", "BERT will Hurt")
LABELS = ("no", "yes")


def test_a_trace_knows_both_the_capitals_and_the_texts():
    found, plain = trace(telling(), *PAIR), trace(small("modernbert"), *PAIR)
    assert found.ids == plain.ids
    assert found.sides == plain.sides
    assert set(found.segments) == {0, 1, 2}
    assert found.heads().data["segments"] == plain.heads().data["segments"]
    without = trace_ids(telling().encoder, found.ids, found.segments)
    assert without.sides == [0] * len(found.ids)
    assert_close(without.output, found.output)


def test_the_input_shows_capitals_as_a_summand():
    view, plain = summed_input(telling(), *PAIR, features=32), summed_input(small("modernbert"), *PAIR)
    assert list(view.data["vectors"]) == ["token", "capital", "sum", "normalised"]
    assert view.data["segments"] == plain.data["segments"]
    kinds = dict(zip(view.data["words"], view.data["capitals"], strict=True))
    assert [kinds[word] for word in ("", "alert", "Be", "BERT")] == ["none", "none", "some", "all"]
    normalised = torch.tensor(view.data["vectors"]["normalised"])
    assert_close(normalised, trace(telling(), *PAIR).embeddings, atol=1e-3, rtol=0)
    assert "capitals" not in plain.data


def test_layers_are_those_of_the_trace():
    assert through_layers(telling("masked_lm", None, None), "The Bank of BERT").data


def test_attributions_are_computed_in_what_the_model_reads():
    model = telling("classes", 2, LABELS)
    text = "The Bank of BERT"
    target = class_target(model, text)
    assert set(target.encoding.segments) == {0, 1, 2}
    _, probability = target.scores(target.ids[None])
    assert float(probability) == pytest.approx(model.classify(text).score, abs=1e-5)
    logit, _ = target.scores(target.ids[None])
    again, _ = target.gradient(target.vectors(target.ids)[None])
    assert_close(again, logit)
    assert why(model, text).data
    words = token_target(telling("masked_lm", None, None), "The [MASK] of BERT")
    best = telling("masked_lm", None, None).fill("The [MASK] of BERT", top_k=1).predictions[0]
    assert float(words.scores(words.ids[None])[1]) == pytest.approx(best.score, abs=1e-5)


def test_a_tagger_has_no_one_answer_to_explain():
    with pytest.raises(WrongTask):
        why(telling(), "The Bank")
