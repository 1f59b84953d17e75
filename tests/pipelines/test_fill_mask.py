import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput
from pipelines.peers import LONG, peers
from text.strategies import any_strings

TEXTS = ["the animal cross the {} .", "{} will hurt", "wear a {}", "the {} sat on the {} , the {}"]


@pytest.mark.parametrize("family", ["Bert", "Roberta", "Albert", "MPNet", "DebertaV2"])
def test_same_as_transformers(family):
    pair = peers(f"{family}ForMaskedLM")
    mask = pair.ours.tokenizer.special["mask"]
    theirs = pair.pipeline("fill-mask")
    for text in [text.replace("{}", mask) for text in TEXTS]:
        expected = theirs(text)
        rows = [expected] if isinstance(expected[0], dict) else expected
        found = pair.ours.fill(text).predictions
        assert [one.id for one in found] == [one["token"] for row in rows for one in row]
        assert [one.score for one in found] == pytest.approx([one["score"] for row in rows for one in row], abs=1e-5)
        assert [one.mask for one in found] == [i for i in range(len(rows)) for _ in range(5)]
        assert [one.token for one in found] == [one["token_str"].strip() for row in rows for one in row]
        if len(rows) == 1 and not text.startswith(mask):
            for ours, one in zip(found, rows[0], strict=True):
                # they leave out a predicted special token
                assert ours.sequence.replace(" ", "").replace("<unk>", "").replace("[UNK]", "") == one[
                    "sequence"
                ].replace(" ", "")


def test_given_candidates_as_in_transformers():
    pair = peers("BertForMaskedLM")
    text, words = "wear a [MASK]", ["mask", "bank", "river"]
    expected = pair.pipeline("fill-mask")(text, targets=words)
    found = pair.ours.fill(text, candidates=words).predictions
    assert [(one.token, one.id) for one in found] == [(one["token_str"], one["token"]) for one in expected]
    assert [one.score for one in found] == pytest.approx([one["score"] for one in expected], abs=1e-5)
    assert len(pair.ours.fill(text, candidates=words, top_k=2).predictions) == 2


@pytest.fixture(scope="module")
def model() -> ch.Model:
    return peers("BertForMaskedLM").ours


def test_the_text_around_a_mask_is_left_as_it_was(model):
    found = model.fill("  Ada's [MASK]!  \n", candidates=["river"]).predictions[0]
    assert found.sequence == "  Ada's river!  \n"
    assert model.fill("The street[MASK]", candidates=["##s"]).predictions[0].sequence == "The streets"
    assert model.fill("The street [MASK]", candidates=["##s"]).predictions[0].sequence == "The streets"
    roberta = peers("RobertaForMaskedLM").ours
    assert roberta.fill("Wear a <mask>!", candidates=["the"]).predictions[0].sequence == "Wear a the!"


def test_masks_of_a_long_text_are_all_filled_where_they_see_most(model):
    text = f"[MASK] {LONG} [MASK] {LONG} [MASK]"
    found = model.fill(text, top_k=1).predictions
    assert [one.mask for one in found] == [0, 1, 2]
    for i, one in enumerate(found):
        before, after = (("", f" {LONG} [MASK] {LONG} [MASK]"), (f"[MASK] {LONG}", f" {LONG} [MASK]"), (text[:-7], ""))[
            i
        ]
        assert one.sequence.startswith(before)
        assert one.sequence.endswith(after)


def test_one_many_and_json(model):
    one = model.fill("wear a [MASK]", top_k=2)
    many = model.fill(["wear a [MASK]", "[MASK]"], top_k=2)
    assert many[0].predictions[0].id == one.predictions[0].id
    assert set(one.to_dict()["predictions"][0]) == {"token", "score", "sequence", "mask", "id"}


@given(st.lists(st.tuples(any_strings, any_strings), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_neighbours_change_nothing_and_no_text_is_too_strange(model, parts):
    texts = [f"{left} [MASK] {right}" for left, right in parts]
    for text, found in zip(texts, model.fill(texts), strict=True):
        single = model.fill(text)
        assert [one.score for one in found.predictions] == pytest.approx(
            [one.score for one in single.predictions], abs=1e-5
        )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("no mask", {}, r"There is no mask in 'no mask'; write \[MASK\] where"),
        ("[MASK]", {"candidates": ["animals"]}, "'animals' is .* tokens to this model .*a mask holds one"),
        ("[MASK]", {"candidates": ["你"]}, "'你' is not in the model's vocabulary"),
        ("[MASK]", {"candidates": []}, "list of at least one word"),
        ("[MASK]", {"candidates": "mask"}, "list of at least one word"),
        ("[MASK]", {"top_k": 0}, "top_k=0"),
    ],
)
def test_bad_input(model, text, options, message):
    with pytest.raises(BadInput, match=message):
        model.fill(text, **options)
