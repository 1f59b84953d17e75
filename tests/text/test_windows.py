import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadInput, InputTooLong
from clearhead.text import Tokenizer, Window, windows

from .strategies import small_texts

lengths = st.integers(5, 40)


def context(window: Window, piece: int) -> int:
    pieces = range(window.first, window.first + len(window.passage))
    return min(piece - pieces[0], pieces[-1] - piece) if piece in pieces else -1


@given(text=small_texts, length=lengths, data=st.data())
def test_every_piece_is_best_exactly_once(tokenizer: Tokenizer, text: str, length: int, data: st.DataObject) -> None:
    room = length - tokenizer.template.specials(pair=False)
    overlap = data.draw(st.none() | st.integers(0, room - 1))
    pieces = tokenizer.pieces(text)
    found = windows(tokenizer, text, length=length, overlap=overlap)
    assert all(len(window.encoding) <= length for window in found)
    assert [window.piece(i) for window in found for i in window.best] == list(range(len(pieces)))
    for window in found:
        for i in window.passage:
            piece = window.piece(i)
            assert window.encoding.ids[i] == pieces.ids[piece]
            assert window.encoding.offsets[i] == pieces.offsets[piece]
            assert window.encoding.words[i] == pieces.words[piece]
        for i in window.best:
            piece = window.piece(i)
            assert context(window, piece) == max(context(other, piece) for other in found)


@given(text=small_texts, question=st.text("abelrt !", max_size=6), length=st.integers(16, 40))
def test_the_question_is_whole_in_every_window(tokenizer: Tokenizer, text: str, question: str, length: int) -> None:
    found = windows(tokenizer, text, length=length, question=question)
    for window in found:
        assert [window.encoding.ids[i] for i in window.encoding.parts[0]] == tokenizer.pieces(question).ids
        assert window.encoding.segments[-1] == tokenizer.encode("a", "a").segments[-1]
    covered = {window.piece(i) for window in found for i in window.passage}
    assert covered == set(range(len(tokenizer.pieces(text))))


def test_a_text_that_fits_is_one_window_equal_to_its_encoding(bert: Tokenizer) -> None:
    (alone,) = windows(bert, "be alert", length=4)
    assert alone.encoding == bert.encode("be alert")
    (asked,) = windows(bert, "be alert", length=20, question="hurt?")
    assert asked.encoding == bert.encode("hurt?", "be alert")
    assert asked.best == asked.passage


def test_neighbours_overlap_as_asked(bert: Tokenizer) -> None:
    found = windows(bert, "a b c d e a b c d e", length=6, overlap=2)
    assert [(window.first, len(window.passage)) for window in found] == [(0, 4), (2, 4), (4, 4), (6, 4)]
    assert [len(window.best) for window in found] == [3, 2, 2, 3]


def test_empty_text_gives_one_window(tokenizer: Tokenizer) -> None:
    (window,) = windows(tokenizer, "", length=10)
    assert window.encoding == tokenizer.encode("")
    assert not window.best


def test_windows_over_words(bert: Tokenizer) -> None:
    words = ["alerts", "hurt", "bert's", "alerting"]
    found = windows(bert, words, length=5, overlap=1)
    assert {window.encoding.words[i] for window in found for i in window.best} == {0, 1, 2, 3}


def test_no_room(bert: Tokenizer) -> None:
    with pytest.raises(InputTooLong, match="Windows of 2 tokens have no room for text: special tokens take 2"):
        windows(bert, "be", length=2)
    with pytest.raises(InputTooLong, match=r"the question and the special tokens take 6.*shorter question"):
        windows(bert, "be", length=6, question="be alert !")
    with pytest.raises(BadInput, match="room for 3 pieces cannot overlap by 3; choose 0 to 2"):
        windows(bert, "be", length=5, overlap=3)
    with pytest.raises(BadInput, match="cannot overlap by -1"):
        windows(bert, "be", length=5, overlap=-1)
