"""Encodings: where pieces stand, which words they are of, and, beside the ids, which words have capitals."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadConfig, BadInput
from clearhead.text import Tokenizer, windows

from .strategies import any_strings, small_texts


def test_each_piece_knows_its_word(bert: Tokenizer) -> None:
    encoding = bert.encode("alerts hurt", "alerting!")
    assert encoding.tokens == ["[CLS]", "alert", "##s", "hurt", "[SEP]", "alert", "##ing", "!", "[SEP]"]
    assert encoding.words == [None, 0, 0, 1, None, 0, 0, 1, None]


def test_spans_and_characters(bert: Tokenizer) -> None:
    text = "Be alert, the alerts hurt!"
    encoding = bert.encode("b", text)
    start = text.index("alerts")
    pieces = encoding.pieces_of_span(start, start + len("alerts"), part=1)
    assert [encoding.tokens[i] for i in pieces] == ["alert", "##s"]
    assert [encoding.offsets[i] for i in pieces] == [(start, start + 5), (start + 5, start + 6)]
    assert not encoding.pieces_of_span(2, 3, part=1)
    assert not encoding.pieces_of_span(100, 200, part=1)


def test_a_span_is_of_a_text_that_is_there(bert: Tokenizer) -> None:
    with pytest.raises(BadInput, match=r"Part 2 asked of an encoding of 2 text\(s\)"):
        bert.encode("a b", "c d").pieces_of_span(0, 1, part=2)


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
    (pieces,) = bert.words_batch([words])
    assert pieces.tokens == ["bert", "[UNK]", "[UNK]", "alert", "##s", "hurt", "!"]
    assert pieces.words == [0, 0, 0, 2, 2, 4, 4]
    assert " ".join(words)[pieces.offsets[5][0] : pieces.offsets[6][1]] == "hurt!"


@given(st.lists(st.text(st.sampled_from("abelrt'!é你"), min_size=1, max_size=8), max_size=8))
def test_no_piece_is_lost_or_shared_between_words(tokenizer: Tokenizer, words: list[str]) -> None:
    (pieces,) = tokenizer.words_batch([words])
    joined = " ".join(words)
    assert pieces.ids == tokenizer.pieces(joined).ids
    found = groupby(zip(pieces.words, pieces.offsets, strict=True), key=lambda piece: piece[0])
    spans = {word: [span for _, span in group] for word, group in found}
    assert [joined[own[0][0] : own[-1][1]] for own in spans.values()] == words
    assert list(spans) == list(range(len(words)))


def test_words_come_as_a_list(bert: Tokenizer) -> None:
    with pytest.raises(BadInput, match="Words must come as a list of strings"):
        bert.words_batch(["be alert"])
    assert bert.words_batch([[]])[0].tokens == []


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
    (pieces,) = bert.with_capitals().words_batch([["Alert-hurt", "BERT"]])
    assert pieces.words == [0, 0, 0, 1]
    assert pieces.capitals == [1, 0, 0, 2]


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
    bert.save(tmp_path, overwrite=True)
    assert not Tokenizer.from_folder(tmp_path).tells_capitals


def test_a_cased_vocabulary_needs_no_telling(roberta: Tokenizer) -> None:
    with pytest.raises(BadConfig, match="leave capitals out"):
        roberta.with_capitals()


def _place(text: str, word: str) -> tuple[int, int]:
    return text.index(word), text.index(word) + len(word)
