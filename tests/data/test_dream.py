import json

import pytest

from clearhead.data.examples import ChoiceExample
from clearhead.data.formats import is_dream, read_dream
from clearhead.errors import BadInput


def test_dream(tmp_path):
    path = tmp_path / "dream.json"
    asked = {"question": "Who?", "choice": ["Ada", "Bob"], "answer": "Bob"}
    path.write_text(json.dumps([[["M: Hi.", "W: Hi."], [asked], "1"]]))
    assert read_dream(path) == [ChoiceExample("M: Hi.\nW: Hi.", ("Who? Ada", "Who? Bob"), 1)]
    path.write_text(json.dumps([[["M: Hi."], [{"question": "Who?"}], "1"]]))
    with pytest.raises(BadInput, match="dialogue 1 is not"):
        read_dream(path)
    path.write_text(json.dumps([[["M: Hi."], [asked | {"answer": "Eve"}], "1"]]))
    with pytest.raises(BadInput, match="dialogue 1 has the label 'Eve'"):
        read_dream(path)


def test_dream_is_told_from_records(tmp_path):
    path = tmp_path / "choices.json"
    for content, dream in (([[["M: Hi."], [], "1"]], True), ([{"context": "M: Hi."}], False), ([], False)):
        path.write_text(json.dumps(content))
        assert is_dream(path) is dream
    assert not is_dream(tmp_path / "nothing.json")
    assert not is_dream("hub:owner/name")
