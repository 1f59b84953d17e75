"""Portions of a text: nothing is lost, nothing is too long, and what was written is joined as the text was."""

from hypothesis import given
from hypothesis import strategies as st

from clearhead.pipelines.translation import sentence_chunks
from pipelines.writers import pieces

TEXT = st.text(alphabet="ab é我. !\n", max_size=80)


@given(text=TEXT, limit=st.integers(1, 12), whole=st.booleans())
def test_all_of_a_text_is_in_its_portions(text, limit, whole):
    cut = sentence_chunks(pieces(), text, limit, whole=whole)
    assert "".join("".join(cut.texts).split()) == "".join(text.split())
    ends = [0, *(end for _, end in cut.spans)]
    assert all(end <= start < stop for end, (start, stop) in zip(ends, cut.spans, strict=False))


@given(text=TEXT, limit=st.integers(8, 12))
def test_no_portion_is_longer_than_the_limit(text, limit):
    for portion in sentence_chunks(pieces(), text, limit).texts:
        # a word at the beginning of a portion may be spelt with one piece more than in its middle
        assert len(pieces().pieces(portion)) <= limit + 1


def test_sentences_are_joined_as_they_stood():
    cut = sentence_chunks(pieces(), "One. Two!\n\nThree?", 100)
    assert cut.texts == ["One.", "Two!", "Three?"]
    assert cut.join(["1.", "2.", "3."]) == "1. 2.\n\n3."
    assert sentence_chunks(pieces(), "One. Two!\n\nThree?", 100, whole=True).texts == ["One. Two!\n\nThree?"]
    assert sentence_chunks(pieces(), "  ", 5).join([]) == ""


def test_a_long_sentence_is_cut_between_words():
    cut = sentence_chunks(pieces(), "bank river " * 30, 7)
    assert all(word in ("bank", "river") for portion in cut.texts for word in portion.split())
    assert len(cut.texts) > 5
