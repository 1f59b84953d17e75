"""What counts as texts, and how they are paired."""

import pytest

from clearhead.errors import BadInput
from clearhead.pipelines.runner import listed, paired


def test_one_text_is_a_list_of_one():
    assert listed("a text") == ["a text"]
    assert listed(("a", "b")) == ("a", "b")
    assert list(listed(letter for letter in "ab")) == ["a", "b"]


@pytest.mark.parametrize("given", [None, 3, 0.5, b"bytes", {"text": "a"}])
def test_what_holds_no_texts_is_refused_at_once(given):
    message = f"give a text or a list of texts, not {type(given).__name__}"
    with pytest.raises(BadInput, match=message):
        listed(given)
    with pytest.raises(BadInput, match=message):
        paired("a question", given)
    with pytest.raises(BadInput, match=message):
        paired(given, "a text")


def test_pairs():
    assert list(paired("a", "b")) == [("a", "b")]
    assert list(paired("a", ["b", "c"])) == [("a", "b"), ("a", "c")]
    assert list(paired(iter("ab"), "c")) == [("a", "c"), ("b", "c")]
    assert list(paired(["a", "b"], ["c", "d"])) == [("a", "c"), ("b", "d")]


def test_uses_of_many_texts_take_one_whole(model):
    assert [one.text for one in model.index("a mask of the street").documents] == ["a mask of the street"]
    assert model.duplicates("aa") == []
    assert model.cluster("a mask", threshold=0.5)[0].members == (0,)
    assert model.senses("mask", "a mask").occurrences[0].start == 2
