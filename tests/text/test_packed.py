"""Flat arrays say of many texts what `Pieces`, `Encoding` and `Window` say of each."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.text import Pieces, Tokenizer
from clearhead.text.packed import PackedPieces, PieceRanges, packed_spans, wrap_packed
from clearhead.text.windows import cut, room_for, spans

TEXTS = [
    "Be alert! The animal didn't cross the street.",
    "",
    "   ",
    "...",
    "Straße, ÜBER Größe; NATO iPhone Paris USA's",
    "日本語のテキスト。 Привет, МОСКВА",
    "a\ud800b [MASK] [CLS]",
    "word " * 3_000,  # longer than a chunk of the library's
    "x" * 12_000 + " and on",
    "İstanbul ﬁne 😀",
]


def same(packed: PackedPieces, each: list[Pieces]) -> None:
    assert packed.counts.tolist() == [len(one) for one in each]
    for (start, stop), one in zip(pairwise(packed.starts), each, strict=True):
        assert packed.ids[start:stop].tolist() == one.ids
        assert [tuple(span) for span in packed.spans[start:stop].tolist()] == one.offsets
        assert packed.words[start:stop].tolist() == one.words
        assert one.capitals == (None if packed.capitals is None else packed.capitals[start:stop].tolist())


@pytest.fixture(params=["bert", "roberta", "albert", "mpnet", "deberta", "capitals"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "capitals":
        return request.getfixturevalue("bert").with_capitals()
    return request.getfixturevalue(request.param)


def test_pieces(tokenizer):
    same(tokenizer.packed_batch(TEXTS), tokenizer.pieces_batch(TEXTS))
    same(tokenizer.packed_batch([]), [])
    ids = tokenizer.packed_batch(TEXTS, spans=False)
    assert ids.ids.tolist() == [i for one in tokenizer.pieces_batch(TEXTS) for i in one.ids]


def test_words_that_were_given(tokenizer):
    sentences = [["New York", "is", "", "big!"], [], ["a"], [""], TEXTS[4].split()]
    same(tokenizer.packed_words(sentences), tokenizer.words_batch(sentences))


@given(st.lists(st.text(max_size=30), max_size=6))
@settings(max_examples=40, deadline=None)
def test_any_texts(bert, roberta, texts):
    for one in (bert.with_capitals(), roberta):
        same(one.packed_batch(texts), one.pieces_batch(texts))


def test_texts_in_another_order(tokenizer):
    packed, each = tokenizer.packed_batch(TEXTS), tokenizer.pieces_batch(TEXTS)
    order = [3, 0, 7, 1]
    same(packed.take(np.array(order)), [each[i] for i in order])
    same(PackedPieces.joined_texts([packed, packed]), each + each)


@pytest.mark.parametrize("overlap", [None, 0, 3])
def test_windows_and_special_tokens(tokenizer, overlap):
    packed, each, template = tokenizer.packed_batch(TEXTS), tokenizer.pieces_batch(TEXTS), tokenizer.template
    room = room_for(template, 12)
    windows = packed_spans(packed.starts[:-1], packed.counts, room, overlap)
    found = wrap_packed(template, packed, windows.held)
    expected = [(i, one) for i, pieces in enumerate(each) for one in cut(template, pieces, room, overlap)]
    assert windows.text.tolist() == [i for i, _ in expected]
    kinds = np.zeros_like(found.ids) if found.segments is None else found.segments
    for row, (start, stop) in enumerate(pairwise(found.starts)):
        _, one = expected[row]
        assert found.ids[start:stop].tolist() == one.encoding.ids
        assert kinds[start:stop].tolist() == one.encoding.segments
        assert (found.parts[0][row], windows.first[row]) == (one.passage.start, one.first)
        best = one.passage.start + windows.best[row] - windows.first[row]
        assert range(best, best + windows.weight[row]) == one.best


def test_pairs(tokenizer):
    texts = TEXTS[:7]
    packed, each = tokenizer.packed_batch(texts), tokenizer.pieces_batch(texts)
    first, second = np.array([0, 1, 4, 5]), np.array([4, 0, 1, 6])
    sides = [PieceRanges(packed.starts[side], packed.counts[side]) for side in (first, second)]
    found = wrap_packed(tokenizer.template, packed, *sides)
    kinds = np.zeros_like(found.ids) if found.segments is None else found.segments
    for row, (start, stop) in enumerate(pairwise(found.starts)):
        one = tokenizer.template.wrap(each[first[row]], each[second[row]])
        assert found.ids[start:stop].tolist() == one.ids
        assert kinds[start:stop].tolist() == one.segments
        assert tuple(part[row] for part in found.parts) == tuple(part.start for part in one.parts)


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(1, 20), st.data())
def test_windows_of_many_texts_are_those_of_each(counts, room, data):
    overlap = data.draw(st.one_of(st.none(), st.integers(0, room - 1)))
    found = packed_spans(np.zeros(len(counts), np.int64), np.array(counts, np.int64), room, overlap)
    expected = [(i, held, best) for i, count in enumerate(counts) for held, best in spans(count, room, overlap)]
    columns = (found.text, found.first, found.count, found.best, found.weight)
    rows = [tuple(row) for row in np.stack(columns, 1).tolist()]
    assert rows == [(i, held.start, len(held), best.start, len(best)) for i, held, best in expected]
