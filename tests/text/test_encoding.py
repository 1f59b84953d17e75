"""Encodings: where pieces stand, which words they are of, and, beside the ids, which words have capitals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadConfig, BadInput
from clearhead.text import Tokenizer, windows

from .strategies import any_strings, small_texts


def test_pieces_of_word(bert: Tokenizer) -> None:
    encoding = bert.encode("alerts hurt", "alerting!")
    assert encoding.tokens == ["[CLS]", "alert", "##s", "hurt", "[SEP]", "alert", "##ing", "!", "[SEP]"]
    assert encoding.pieces_of_word(0) == range(1, 3)
    assert encoding.pieces_of_word(1) == range(3, 4)
    assert encoding.pieces_of_word(0, part=1) == range(5, 7)
    assert not encoding.pieces_of_word(9)
    assert encoding.first_pieces() == {0: 1, 1: 3}
    assert encoding.first_pieces(part=1) == {0: 5, 1: 7}


def test_spans_and_characters(bert: Tokenizer) -> None:
    text = "Be alert, the alerts hurt!"
    encoding = bert.encode("b", text)
    start = text.index("alerts")
    pieces = encoding.pieces_of_span(start, start + len("alerts"), part=1)
    assert [encoding.tokens[i] for i in pieces] == ["alert", "##s"]
    assert slice(*encoding.span_of_pieces(pieces[0], pieces[-1])) == slice(start, start + 6)
    assert encoding.span_of_word(4, part=1) == (start, start + 6)
    assert encoding.span_of_word(40, part=1) is None
    assert not encoding.pieces_of_span(2, 3, part=1)
    assert not encoding.pieces_of_span(100, 200, part=1)


def test_a_span_of_pieces_lies_in_one_text(bert: Tokenizer) -> None:
    encoding = bert.encode("a b", "c d")
    with pytest.raises(BadInput, match="Tokens 1 to 4 are not a run inside one text"):
        encoding.span_of_pieces(1, 4)
    with pytest.raises(BadInput, match="Tokens 0 to 1"):
        encoding.span_of_pieces(0, 1)
    with pytest.raises(BadInput, match=r"Part 2 asked of an encoding of 2 text\(s\)"):
        encoding.pieces_of_word(0, part=2)


@given(small_texts, st.data())
def test_pieces_of_span_are_those_that_touch_it(tokenizer: Tokenizer, text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    encoding = tokenizer.encode(text)
    spans = {i: encoding.offsets[i] for i in encoding.parts[0]}
    touching = [i for i, span in spans.items() if span and span[0] < end and start < span[1]]
    found = encoding.pieces_of_span(start, end)
    assert [i for i in found if spans[i] and spans[i][0] < spans[i][1]] == [  # type: ignore[index]
        i
        for i in touching
        if spans[i][0] < spans[i][1]  # type: ignore[index]
    ]


def test_words_given_by_the_user(bert: Tokenizer) -> None:
    words = ["BERT's", "", "alerts", "\u200b", "hurt!"]
    encoding = bert.encode_words(words)
    assert encoding.tokens == ["[CLS]", "bert", "[UNK]", "[UNK]", "alert", "##s", "hurt", "!", "[SEP]"]
    assert encoding.words == [None, 0, 0, 0, 2, 2, 4, 4, None]
    assert encoding.first_pieces() == {0: 1, 2: 4, 4: 6}
    joined = " ".join(words)
    start, end = encoding.span_of_word(4) or (0, 0)
    assert joined[start:end] == "hurt!"


@given(st.lists(st.text(st.sampled_from("abelrt'!é你"), min_size=1, max_size=8), max_size=8))
def test_no_piece_is_lost_or_shared_between_words(tokenizer: Tokenizer, words: list[str]) -> None:
    encoding = tokenizer.encode_words(words)
    joined = " ".join(words)
    assert encoding.ids == tokenizer.encode(joined).ids
    for i in encoding.first_pieces():
        start, end = encoding.span_of_word(i) or (0, 0)
        assert joined[start:end] == words[i]
    assert list(encoding.first_pieces()) == list(range(len(words)))


def test_words_come_as_a_list(bert: Tokenizer) -> None:
    with pytest.raises(BadInput, match="Words must come as a list of strings"):
        bert.encode_words("be alert")
    assert bert.encode_words([]).tokens == ["[CLS]", "[SEP]"]


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
