import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.heads import SentenceVector
from clearhead.nn.layout import Packed, Padded

lengths = st.lists(st.integers(0, 6), max_size=6)


@given(lengths)
def test_pack_and_pad_are_inverse(lengths):
    layout = Packed.of(lengths)
    x = torch.randn(sum(lengths), 3)
    padded, rectangle = layout.pad(x)
    assert padded.shape == (len(lengths), max(lengths, default=0), 3)
    again, packed = rectangle.pack(padded)
    assert_close(again, x)
    assert packed.lengths == layout.lengths
    assert_close(packed.positions, layout.positions)


@given(lengths)
def test_both_layouts_pool_alike(lengths):
    layout = Packed.of(lengths)
    x = torch.randn(sum(lengths), 3)
    padded, rectangle = layout.pad(x, value=7.0)
    for pool in ("first", "last", "mean", "max"):
        pooled = getattr(layout, pool)(x)
        if max(lengths, default=0):
            assert_close(getattr(rectangle, pool)(padded), pooled)
        for row, sequence in zip(pooled, layout.split(x), strict=True):
            by_hand = {
                "first": lambda s: s[0],
                "last": lambda s: s[-1],
                "mean": lambda s: s.mean(0),
                "max": lambda s: s.amax(0),
            }[pool]
            assert_close(row, by_hand(sequence) if len(sequence) else torch.zeros(3))


def test_runs_join_neighbours_of_equal_length():
    assert Packed.of([3, 3, 0, 2, 3]).runs == [(0, 2, 3), (6, 1, 2), (8, 1, 3)]


def test_twice_is_the_layout_of_the_sequences_repeated():
    layout, expected = Packed.of([3, 0, 2]).twice(), Packed.of([3, 0, 2, 3, 0, 2])
    assert (layout.lengths, layout.max_length, layout.runs) == (expected.lengths, expected.max_length, expected.runs)
    assert_close(layout.offsets, expected.offsets)
    assert_close(layout.positions, expected.positions)


def test_positions_count_real_tokens():
    assert Packed.of([2, 3]).positions.tolist() == [0, 1, 0, 1, 2]
    left = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    assert Padded.of(left).positions.tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]


def test_split_gives_the_real_tokens():
    x = torch.arange(8.0).view(2, 4, 1)
    parts = Padded.of(torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0]])).split(x)
    assert [part.flatten().tolist() for part in parts] == [[1, 2], [4]]


def test_bad_layouts_are_refused():
    with pytest.raises(BadInput, match=r"negative, got \[3, -1\]"):
        Packed.of([3, -1])
    with pytest.raises(BadInput, match=r"shape \(4,\)"):
        Padded.of(torch.ones(4))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, when it loads its compiler
@pytest.mark.parametrize("pool", ["first", "mean", "max"])
def test_pooling_compiles_into_one_graph(pool):
    lengths, x = [2, 0, 3], torch.randn(5, 4)
    compiled = torch.compile(SentenceVector(pool), backend="eager", fullgraph=True)
    assert_close(compiled(x, Packed.of(lengths)), getattr(Packed.of(lengths), pool)(x))


def test_what_is_computed_once_is_kept():
    layout = Packed.of([2, 3])
    assert layout.places is layout.places
    assert layout.runs is layout.runs
