"""Tags are recognised by themselves, and those that are of no one kind are refused with their place."""

import pytest

from clearhead.data.examples import WordsExample
from clearhead.data.tags import are_plain, entity_type, recognised, scheme_of, scheme_of_labels, to_iob2
from clearhead.errors import BadInput


def sentences(*tags):
    lists = [text.split() for text in tags]
    return [WordsExample(("w",) * len(one), tuple(one), where=f"a.txt, line {n}") for n, one in enumerate(lists, 1)]


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["B-A I-A O B-A", "O"], "IOB2"),
        (["I-A I-A O", "O B-A"], "IOB1"),
        (["B-A E-A O S-B"], "IOBES"),
        (["B-A I-A L-A U-B"], "BILOU"),
        (["DT NN", "VB ."], "plain"),
        (["PER O LOC"], "plain"),
        (["O O"], "plain"),
        (["B I O"], "IOB2"),
        (["-LRB- NN HYPH"], "plain"),
    ],
)
def test_schemes(tags, scheme):
    assert scheme_of(sentences(*tags)) == scheme


def test_what_is_learnt():
    for given, wanted in [
        ("I-A I-A O B-A", "B-A I-A O B-A"),
        ("B-A I-A L-A O U-B", "B-A I-A E-A O S-B"),
        ("B-A E-A S-B", "B-A E-A S-B"),
        ("NN VB", "NN VB"),
    ]:
        (found,) = recognised(sentences(given))
        assert (found.tags, found.where) == (tuple(wanted.split()), "a.txt, line 1")
    untagged = [WordsExample(("a", "b"))]
    assert recognised(untagged) == untagged


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (
            ["B-A O", "O LOC"],
            "in the sentence at a.txt, line 2, the tag 'LOC' of 'w' has no B- or I-, others have one; write",
        ),
        (["NN VB", "B-A NN"], "in the sentence at a.txt, line 2, the tag 'B-A' of 'w' has a prefix, others have none"),
        (["B-A E-A U-B"], "a.txt has tags of two schemes, B-A, E-A, U-B; write E- and S-, or L- and U-"),
    ],
)
def test_mixtures(tags, message):
    with pytest.raises(BadInput) as caught:
        scheme_of(sentences(*tags))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "iob2"),
    [
        ("I-A I-A O I-A", "B-A I-A O B-A"),
        ("I-A I-B B-B I-B", "B-A B-B B-B I-B"),
        ("B-A I-A I-B", "B-A I-A B-B"),
        ("B-A I-A E-A S-A S-A B-A E-A", "B-A I-A I-A B-A B-A B-A I-A"),
        ("U-A B-A L-A", "B-A B-A I-A"),
        ("NN O NN", "NN O NN"),
    ],
)
def test_to_iob2(given, iob2):
    assert to_iob2(given.split()) == iob2.split()
    assert to_iob2(iob2.split()) == iob2.split()


def test_labels_of_models():
    assert scheme_of_labels(["O", "B-A", "I-A"]) == "IOB2"
    assert scheme_of_labels(["O", "S-A"]) == "IOBES"
    assert scheme_of_labels(["NN", "VB"]) == "plain"
    assert are_plain(["NN", "VB"])
    assert not any(map(are_plain, (["O", "PER"], ["O", "B-A"], ["LABEL_0", "LABEL_1"], [])))
    assert [entity_type(tag) for tag in ("B-PER", "O", "NN", "E-X-Y", "B-")] == ["PER", "O", "NN", "X-Y", "B-"]
