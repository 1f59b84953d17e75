import re
import sys

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, pre_tokenizers

from clearhead.text import Tokenizer
from clearhead.text.chunking import WORD_CHARACTER, Chunker
from clearhead.text.encoding import Pieces

from .conftest import SENTENCES
from .strategies import texts


def in_chunks(library: tokenizers.Tokenizer, text: str, size: int) -> tuple[Pieces, int]:
    rule = Chunker.of(library)
    plan = Chunker(rule.cut, rule.longest_word, size).chunks(text)
    encoded = library.encode_batch(plan.texts, add_special_tokens=False)
    pieces = [Pieces(part.ids, part.tokens, part.offsets, part.word_ids) for part in encoded]
    return plan.join(pieces), max(map(len, plan.texts))


@given(parts=st.lists(texts, max_size=4), size=st.integers(1, 20))
def test_chunks_never_change_the_result(library: tokenizers.Tokenizer, parts: list[str], size: int) -> None:
    text = " ".join(parts)
    ours, _ = in_chunks(library, text, size)
    theirs = library.encode(text, add_special_tokens=False)
    assert (ours.ids, ours.offsets, ours.words) == (theirs.ids, theirs.offsets, theirs.word_ids)


@given(
    st.lists(st.sampled_from(["x" * 1500, "é" * 1001, "be", "!", " ", "你", "\u0301", "٣" * 1200, "\n"]), max_size=12)
)
def test_absurdly_long_words_are_shortened_without_a_trace(bert: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    ours, longest = in_chunks(bert._library, text, 10)
    theirs = bert._library.encode(text, add_special_tokens=False)
    assert (ours.ids, ours.offsets, ours.words) == (theirs.ids, theirs.offsets, theirs.word_ids)
    assert longest < 1000


@pytest.mark.parametrize("unit", ["x", "!", "你", "be ", "be alert!\n", "é", "[MASK] "])
def test_the_library_never_sees_a_long_string(bert: Tokenizer, unit: str) -> None:
    text = unit * (200_000 // len(unit))
    plan = bert._chunker.chunks(text)
    assert max(map(len, plan.texts)) < 10_100
    assert len(plan.texts) <= len(text) / 10_000 + 1


@pytest.mark.parametrize("sentence", SENTENCES)
def test_prose_is_bounded_for_byte_level_too(roberta: Tokenizer, sentence: str) -> None:
    plan = roberta._chunker.chunks((sentence + " ") * 1000)
    assert max(map(len, plan.texts)) < 10_100
    assert "".join(plan.texts) == (sentence + " ") * 1000


def test_a_million_characters_without_a_space(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("x" * 1_000_000)
    first, last = encoding.offsets[1], encoding.offsets[-2]
    assert first is not None
    assert last is not None
    assert (first[0], last[1]) == (0, 1_000_000)


def test_every_shortened_character_belongs_to_a_word(bert: Tokenizer) -> None:
    inside = [c for c in map(chr, range(sys.maxunicode + 1)) if re.fullmatch(WORD_CHARACTER, c)]
    assert {"a", "Z", "0", "é", "ж", "ا", "ก"} <= set(inside)
    for character, pieces in zip(inside, bert.pieces_batch([f"{c * 101}" for c in inside]), strict=True):
        assert pieces.ids == [bert.unk_id], f"U+{ord(character):04X}"
        assert pieces.offsets == [(0, 101)]


def test_unknown_parts_are_left_to_the_library(bert: Tokenizer) -> None:
    library = tokenizers.Tokenizer.from_str(bert._library.to_str())
    assert Chunker.of(library).cut is not None
    library.add_tokens([AddedToken("a b")])
    assert Chunker.of(library).cut is None
    assert Chunker.of(library).longest_word is None
    library = tokenizers.Tokenizer.from_str(bert._library.to_str())
    library.pre_tokenizer = pre_tokenizers.Split(Regex("x"), "removed")
    assert Chunker.of(library) == Chunker(None, None)
