import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.sentences import sentence_spans
from clearhead.errors import BadInput
from clearhead.pipelines.search.passages import cut_passages
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
    assert len(cut_passages(text, 800)) == 1, "both paragraphs are short"


def test_a_heading_goes_with_what_follows():
    text = "# Bank\n\n" + "It keeps money. " * 4
    assert cut_passages(text, 100) == [(0, len(text) - 1)]


def test_a_long_sentence_is_cut_between_words():
    text = "word " * 50
    parts = [text[slice(*span)] for span in cut_passages(text, 23)]
    assert all(re.fullmatch(r"word( word)*", part) for part in parts)
    assert sum(part.count("word") for part in parts) == 50
    assert [len(part) for part in parts[:2]] == [19, 19]


def test_passages_of_no_length_are_refused():
    with pytest.raises(BadInput, match="at most 0 characters hold nothing"):
        cut_passages("text", 0)
