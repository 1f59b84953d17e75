import pytest

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from pipelines.alike import alike
from pipelines.peers import LONG, Peers, peers

FAMILIES = ["Bert", "Roberta", "Albert"]


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> Peers:
    return peers(f"{request.param}ForMaskedLM", seed=2)


@pytest.fixture(scope="module")
def bert() -> Peers:
    return peers("BertForMaskedLM", seed=2)


def both(pair, text, **options):
    text = text if isinstance(text, list) else [text]
    given = [one.replace("[MASK]", pair.ours.tokenizer.special["mask"]) for one in text]
    given = given[0] if len(given) == 1 else given
    return ch.pipeline("fill-mask", pair.folder)(given, **options), pair.pipeline("fill-mask")(given, **options)


@pytest.mark.parametrize(
    "text", ["Wear a [MASK]!", "She went to [MASK] bank, [MASK] you.", ["a [MASK]", "The [MASK] is"]]
)
def test_same_as_transformers(pair, text):
    assert alike(*both(pair, text))
    assert alike(*both(pair, text, top_k=2))


@pytest.mark.parametrize("targets", ["mask", ["mask", "bank", "river"], ["tiredriver", "mask", "mask"]])
def test_targets_are_words_of_the_vocabulary_or_first_pieces(pair, targets):
    assert alike(*both(pair, "Wear a [MASK]!", targets=targets))
    assert alike(*both(pair, "Wear a [MASK]!", targets=targets, top_k=1))


def test_a_list_of_one_text_has_its_result(bert):
    fill = ch.pipeline("fill-mask", bert.folder, top_k=1)
    assert alike(fill(["a [MASK]"]), bert.pipeline("fill-mask", top_k=1)(["a [MASK]"]))
    assert [len(fill("a [MASK]")), len(fill("a [MASK]", top_k=3))] == [1, 3]
    assert len(fill("a [MASK]", top_k=None)) == 5


def test_masks_of_a_long_text_are_filled(bert):
    fill = ch.pipeline("fill-mask", bert.folder)
    found = fill(f"{LONG} Wear a [MASK]! {LONG}")
    assert found[0]["sequence"].count("wear a ") == 9
    assert len(found) == 5
    assert found[0]["token_str"] == bert.ours.fill(f"{LONG} Wear a [MASK]! {LONG}", top=1).predictions[0].token


def test_what_is_refused(bert):
    fill = ch.pipeline("fill-mask", bert.folder)
    with pytest.raises(BadInput, match=r"There is no mask in 'a mask'; write \[MASK\]"):
        fill("a mask")
    with pytest.raises(BadInput, match="top_k=0 must be 1 or more"):
        fill("a [MASK]", top_k=0)
    with pytest.raises(BadInput, match=r"targets=\['\\u200b'\] has no word"):
        fill("a [MASK]", targets=["\u200b"])
    with pytest.raises(WrongTask, match="cannot fill"):
        ch.pipeline("fill-mask", peers("BertForQuestionAnswering", seed=3).folder)
