"""A tokenizer of small letters that tells, beside the ids, which words have capitals."""

import pytest
from hypothesis import given

from clearhead.errors import BadConfig
from clearhead.text import Tokenizer, windows

from .strategies import any_strings


def test_each_piece_has_the_kind_of_its_word(bert: Tokenizer) -> None:
    telling = bert.with_capitals()
    text = "Alert NATO will hurt iPhone A"
    encoding = telling.encode(text)
    kinds = {text[slice(*span)]: kind for span, kind in zip(encoding.offsets, encoding.segments, strict=True) if span}
    assert [kinds[word] for word in ("Alert", "will", "hurt", "A")] == [1, 0, 0, 1]
    assert encoding.ids == bert.encode(text).ids
    of_nato = encoding.pieces_of_span(*_place(text, "NATO"))
    of_iphone = encoding.pieces_of_span(*_place(text, "iPhone"))
    assert {encoding.segments[i] for i in of_nato} == {2}
    assert {encoding.segments[i] for i in of_iphone} == {1}
    assert encoding.segments[0] == encoding.segments[-1] == 0


def test_a_pair_tells_capitals_too(bert: Tokenizer) -> None:
    assert bert.encode("be", "Alert").segments == [0, 0, 0, 1, 1]
    assert bert.with_capitals().encode("be", "Alert").segments == [0, 0, 0, 1, 0]


@given(any_strings, any_strings)
def test_the_table_shows_sentences_as_before(bert: Tokenizer, text: str, pair: str) -> None:
    telling = bert.with_capitals()
    assert telling.encode(text).rows() == bert.encode(text).rows()
    assert telling.encode(text, pair).rows() == bert.encode(text, pair).rows()
    assert bert.encode(text, pair).sentences == bert.encode(text, pair).segments


def test_words_that_are_given_have_their_parts_told_apart(bert: Tokenizer) -> None:
    encoding = bert.with_capitals().encode_words(["Alert-hurt", "BERT"])
    kinds = [[encoding.segments[i] for i in encoding.pieces_of_word(word)] for word in (0, 1)]
    assert kinds == [[1, 0, 0], [2]]


@given(any_strings)
def test_windows_hold_what_the_whole_text_does(bert: Tokenizer, text: str) -> None:
    telling = bert.with_capitals()
    whole = telling.pieces(text).capitals
    assert whole is not None
    found = [one.encoding.segments[position] for one in windows(telling, text, length=12) for position in one.best]
    assert found == whole


def test_it_is_saved_and_read_again(bert: Tokenizer, tmp_path) -> None:
    bert.with_capitals().save(tmp_path)
    assert Tokenizer.from_folder(tmp_path).tells_capitals
    bert.save(tmp_path)
    assert not Tokenizer.from_folder(tmp_path).tells_capitals


def test_a_cased_vocabulary_needs_no_telling(roberta: Tokenizer) -> None:
    with pytest.raises(BadConfig, match="leave capitals out"):
        roberta.with_capitals()


def _place(text: str, word: str) -> tuple[int, int]:
    return text.index(word), text.index(word) + len(word)
