"""The four diagrams: each says what the model says, before fine-tuning too."""

import pytest

import clearhead as ch
from clearhead.errors import WrongTask
from clearhead.inside import heads_on_top
from clearhead.inside.heads_view import TEXTS
from inside.models import LABELS, small, telling
from pipelines.writers import translator


@pytest.fixture(scope="module")
def model():
    return ch.load()


def by_kind(view):
    return {one["kind"]: one for one in view.data["diagrams"]}


def test_the_built_in_encoder_has_all_four_and_says_what_it_says(model):
    found = by_kind(heads_on_top(model))
    assert list(found) == ["sentence", "pair", "tags", "span"]
    best = model.classify(TEXTS["sentence"][0])
    assert found["sentence"]["after"]["answer"]["items"][0] == [best.label, pytest.approx(best.score, abs=1e-3)]
    best = model.compare(*TEXTS["pair"])
    assert found["pair"]["after"]["answer"]["items"][0] == [best.label, pytest.approx(best.score, abs=1e-3)]
    assert found["span"]["after"]["answer"]["items"][0][0] == model.answer(*TEXTS["span"]).text.lower()
    named = [said[0] for said in found["tags"]["after"]["said"] if said and said[0] != "O"]
    assert {"B-PER", "B-LOC"} <= set(named)


def test_before_fine_tuning_a_fresh_head_guesses_the_same_each_time(model):
    first, again = by_kind(heads_on_top(model)), by_kind(heads_on_top(model))
    assert first == again
    for one in first.values():
        assert one["before"]["tokens"] == one["after"]["tokens"]
        assert len(one["after"]["kept"]) == len(one["after"]["tokens"])
        assert all(-1 <= cosine < 0.999 for cosine in one["after"]["kept"])
    assert first["span"]["before"]["answer"]["items"][0][1] < 0.1 < first["span"]["after"]["answer"]["items"][0][1]


def test_own_texts_go_where_they_fit(model):
    found = by_kind(heads_on_top(model, "Two hours that I will never get back."))
    assert found["sentence"]["texts"] == found["tags"]["texts"] == ["Two hours that I will never get back."]
    assert found["pair"]["texts"] == list(TEXTS["pair"])
    found = by_kind(heads_on_top(model, "Where did Ada live?", "Ada lived in London."))
    assert found["span"]["texts"] == ["Where did Ada live?", "Ada lived in London."]
    assert found["span"]["after"]["answer"]["items"][0][0] == "london"


def test_a_model_with_one_head_has_one_diagram():
    (one,) = heads_on_top(small(head="classes", outputs=2, labels=("no", "yes")), "the animal").data["diagrams"]
    assert (one["kind"], one["skill"], one["before"]) == ("sentence", None, None)
    (one,) = heads_on_top(small(head="classes", outputs=2), "the animal", "it was").data["diagrams"]
    assert one["kind"] == "pair"
    (one,) = heads_on_top(telling(), "the bank").data["diagrams"]
    assert {said[0] for said in one["after"]["said"] if said} <= set(LABELS)


def test_what_has_no_head_is_said():
    with pytest.raises(WrongTask, match="has no head for classes, tags or spans, nor skills"):
        heads_on_top(small(), "the animal")
    with pytest.raises(WrongTask, match="is no encoder with a head on top"):
        heads_on_top(translator(), "the animal")
    with pytest.raises(WrongTask, match="is no encoder with a head on top"):
        heads_on_top(translator("seq2seq-gru"), "the animal")
