"""Fields read what a request gives, or say in one sentence what is wrong with it."""

import pytest

from clearhead.errors import BadInput
from clearhead.studio.entry import MAX_CHARACTERS, Field, parse
from clearhead.studio.pages import lines_of

TEXT = Field(name="text", label="Text", required=True)
TOP = Field(name="top", label="How many", kind="number", default=5, least=1, most=50)
METHOD = Field(name="method", label="By", choices=("vectors", "bm25"), default="vectors")


def test_values_come_from_strings_and_from_json():
    assert parse((TEXT, TOP, METHOD), {"text": "a", "top": "7"}) == {"text": "a", "top": 7, "method": "vectors"}
    assert parse((TEXT, TOP), {"text": "a", "top": 7}) == parse((TEXT, TOP), {"text": "a", "top": " 7 "})
    assert parse((TOP,), {"top": ""}) == {"top": 5}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'Text' is empty; give text"),
        ({"text": " \n"}, "'Text' is empty; give text"),
        ({"text": 3}, "text must be a text, not int"),
        ({"text": ["a"]}, "text must be a text, not list"),
        ({"text": "a" * (MAX_CHARACTERS + 1)}, "text has 200001 characters; give at most 200000"),
        ({"text": "a", "top": "x"}, "top='x' is no number from 1 to 50"),
        ({"text": "a", "top": "٣"}, "is no number"),
        ({"text": "a", "top": "9" * 5000}, "is no number"),
        ({"text": "a", "top": 51}, "top='51' is no number from 1 to 50"),
        ({"text": "a", "top": True}, "top='True' is no number"),
        ({"text": "a", "top": 1.5}, "top='1.5' is no number"),
        ({"text": "a", "method": "magic"}, "method='magic' is not known; choose vectors, bm25"),
        ({"text": "a", "txet": "b"}, "'txet' is not asked for here; choose text, top, method"),
    ],
)
def test_what_is_wrong_is_one_sentence(given, message):
    with pytest.raises(BadInput, match=message) as error:
        parse((TEXT, TOP, METHOD), given)
    assert len(str(error.value)) < 200


def test_lines_are_texts():
    assert lines_of(" a \n\n b\r\n") == ["a", "b"]
    assert lines_of(None) == []
