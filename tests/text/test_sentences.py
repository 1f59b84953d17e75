import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", " Two!", " Three?"]),
        (
            "He met Mr. Smith, J. R. Doe and Mrs. No. They left.",
            ["He met Mr. Smith, J. R. Doe and Mrs. No.", " They left."],
        ),
        ('"Is it?" he asked. "It is." She went.', ['"Is it?" he asked.', ' "It is."', " She went."]),
        ("Version 2.5 costs 3.50. Then e.g. more.", ["Version 2.5 costs 3.50. Then e.g. more."]),
        ("A heading\nThe text\nwraps here.\n\nEnd", ["A heading", "\nThe text\nwraps here.", "\n\nEnd"]),
        ("你好。再见！好", ["你好。", "再见！", "好"]),
        ("هل هذا؟ نعم. यह है। वह है।", ["هل هذا؟", " نعم.", " यह है।", " वह है।"]),
        ("", []),
        (" \n ", [" \n "]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


@given(st.text(alphabet=st.sampled_from("aB1 .!?\n。\"')…é你\t"), max_size=60))
def test_nothing_is_lost_and_no_sentence_is_blank(text: str) -> None:
    found = split_sentences(text)
    assert "".join(found) == text
    assert not text.strip() or all(sentence.strip() for sentence in found)
