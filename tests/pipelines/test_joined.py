"""Words of plain text, as the data of taggers parts them."""

import pytest
from hypothesis import given

from clearhead.pipelines.token_classification import join_words
from data.small import tokenizer
from text.strategies import any_strings


def words_of(text: str) -> list[str]:
    pieces = tokenizer().pieces(text)
    numbers = join_words(text, pieces.offsets, pieces.words)
    places = [
        [span for span, one in zip(pieces.offsets, numbers, strict=True) if one == n] for n in sorted(set(numbers))
    ]
    return [text[spans[0][0] : spans[-1][1]] for spans in places]


@pytest.mark.parametrize(
    "words",
    [
        "The U.S. and the U.K. agreed .",
        "C. L. Cairns hit 3.5 at 12:30 , or 1,000 .",
        "Mary O'Brien of AT&T met the Anglo-Dutch team .",
        "It 's McDonald 's , we don 't go",
        "1. Ada",
        '" Paris , " he said ( twice ) .',
        "see example.com or and/or 1996-08-22",
        "你 好 , 世 界",
    ],
)
def test_words_are_parted_as_taggers_learn_them(words):
    parted = words.split()
    text = words.replace(" ,", ",").replace(" .", ".").replace(" '", "'").replace("( ", "(").replace(" )", ")")
    text = text.replace('" Paris', '"Paris').replace(', "', ',"').replace("你 好", "你好").replace("世 界", "世界")
    assert words_of(text) == parted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Vitamin A.", ["Vitamin", "A", "."]),
        ("in 1996. Then", ["in", "1996", ".", "Then"]),
        ("the end.Next", ["the", "end", ".", "Next"]),
        ("well-", ["well", "-"]),
        ("", []),
    ],
)
def test_the_end_of_a_sentence_is_no_part_of_a_word(text, words):
    assert words_of(text) == words


def test_a_word_does_not_grow_without_end():
    assert max(map(len, words_of("a." * 5_000))) < 110


@given(any_strings)
def test_words_only_grow(text):
    pieces = tokenizer().pieces(text)
    numbers = join_words(text, pieces.offsets, pieces.words)
    assert len(numbers) == len(pieces.words)
    for i in range(1, len(numbers)):
        assert numbers[i] - numbers[i - 1] in (0, 1)
        assert numbers[i] == numbers[i - 1] or pieces.words[i] != pieces.words[i - 1]
