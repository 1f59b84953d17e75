import re
from textwrap import fill

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadInput
from clearhead.pipelines.search.passages import cut_passages
from clearhead.text.sentences import sentence_spans
from text.strategies import any_strings

prose = st.lists(st.sampled_from(["A word.", "Two words! ", "\n\n", "\n", " ", "x" * 30, "你好。", "end? "])).map(
    "".join
)


@given(st.one_of(any_strings, prose), st.integers(1, 60))
def test_every_word_is_in_one_passage_and_none_is_too_long(text, longest):
    spans = cut_passages(text, longest)
    end = 0
    for start, stop in spans:
        assert not text[end:start].strip()
        assert 0 < stop - start <= longest
        assert text[start:stop] == text[start:stop].strip()
        end = stop
    assert not text[end:].strip()


@given(st.one_of(any_strings, prose))
def test_sentences_are_slices_and_leave_only_white_space_out(text):
    end = 0
    for start, stop in sentence_spans(text):
        assert not text[end:start].strip()
        assert text[start:stop] == text[start:stop].strip() != ""
        end = stop
    assert not text[end:].strip()


def test_sentences_are_gathered_and_paragraphs_kept_apart():
    text = "One is here. Two is here.\n\nThree is a paragraph. Four ends it."
    assert [text[slice(*span)] for span in cut_passages(text, 60)] == [
        "One is here. Two is here.",
        "Three is a paragraph. Four ends it.",
    ]
    assert len(cut_passages(text, 22)) == 4
    assert len(cut_passages(text, 800)) == 2, "however short they are"


@pytest.mark.parametrize("heading", ["# Bank", "# Bank\n\n## Money", "Bank", "# Bank\n\nMoney"])
def test_a_heading_goes_with_what_follows(heading):
    text = f"{heading}\n\n" + "It keeps money. " * 4
    assert cut_passages(text, 100) == [(0, len(text) - 1)]


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("Buy milk\nCall the pharmacy\n  Feed the cat\n", ["Buy milk", "Call the pharmacy", "Feed the cat"]),
        ("Buy milk\r\n\r\nCall the pharmacy\r\n", ["Buy milk", "Call the pharmacy"]),
        ("It is open until eight.\nA friend may come.", ["It is open until eight.", "A friend may come."]),
        ("12:01 up\n12:02 up\n12:03 up", ["12:01 up", "12:02 up", "12:03 up"]),
        ("Where is it?\nIn Rome.\n\nWhen?\nIn 1833.", ["Where is it?\nIn Rome.", "When?\nIn 1833."]),
        ("One line alone", ["One line alone"]),
    ],
    ids=["list", "list with blank lines", "sentences", "log", "pairs", "line"],
)
def test_a_passage_is_what_its_writer_set_apart(text, passages):
    assert [text[slice(*span)] for span in cut_passages(text)] == passages


@given(st.integers(30, 90))
def test_wrapped_prose_is_one_passage(width):
    text = fill(
        "You can send somebody else to fetch medicine, if they know the name of it and when it was written. ", width
    )
    assert cut_passages(text) == [(0, len(text))]
    assert len(cut_passages(f"{text}\n\n{text}")) == 2


def test_a_long_list_among_paragraphs_goes_by_lines():
    lines = [f"Item {number} of the list" for number in range(60)]
    text = "Things to do:\n\n" + "\n".join(lines)
    assert [text[slice(*span)] for span in cut_passages(text)][1:] == lines


def test_a_long_sentence_is_cut_between_words():
    text = "word " * 50
    parts = [text[slice(*span)] for span in cut_passages(text, 23)]
    assert all(re.fullmatch(r"word( word)*", part) for part in parts)
    assert sum(part.count("word") for part in parts) == 50
    assert [len(part) for part in parts[:2]] == [19, 19]


def test_passages_of_no_length_are_refused():
    with pytest.raises(BadInput, match="at most 0 characters hold nothing"):
        cut_passages("text", 0)
