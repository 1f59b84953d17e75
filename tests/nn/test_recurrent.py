"""Recurrent layers over our layouts: packed, padded and one by one give the same numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from clearhead.nn.layout import Packed, Padded
from clearhead.nn.recurrent import RecurrentLayers, joined_directions, reversed_places

lengths = st.lists(st.integers(0, 7), min_size=1, max_size=6)
CORES = {
    "lstm": lambda: nn.LSTM(5, 4, num_layers=2),
    "lstm in both directions": lambda: nn.LSTM(5, 4, num_layers=2, bidirectional=True),
    "gru": lambda: nn.GRU(5, 4),
    "gru in both directions": lambda: nn.GRU(5, 4, bidirectional=True),
}


def layer(name: str) -> RecurrentLayers:
    torch.manual_seed(1)
    return RecurrentLayers(CORES[name]()).eval()


@pytest.mark.parametrize("name", CORES)
@given(lengths=lengths, seed=st.integers(0, 99))
def test_packed_sequences_are_read_as_each_alone(name, lengths, seed):
    part, layout = layer(name), Packed.of(lengths)
    x = torch.randn(sum(lengths), 5, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        read, states = part(x, layout)
        for b, (own, found) in enumerate(zip(layout.split(x), layout.split(read), strict=True)):
            if not len(own):
                assert not any(state[:, b].any() for state in states)
                continue
            alone, last = part.core(own)
            assert_close(found, alone, atol=1e-6, rtol=1e-6)
            last = last if isinstance(last, tuple) else (last,)
            for ours, theirs in zip(states, last, strict=True):
                assert_close(ours[:, b], theirs, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", CORES)
@given(lengths=lengths.filter(any), left=st.integers(0, 3), right=st.integers(0, 3))
def test_padding_changes_nothing(name, lengths, left, right):
    part = layer(name)
    place = torch.arange(left + max(lengths) + right)
    keep = (place >= left) & (place < left + torch.tensor(lengths)[:, None])
    padded = torch.randn(*keep.shape, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted, states = part(padded[keep], Packed.of(lengths))
        found, same = part(padded, Padded.of(keep))
    assert torch.equal(found[keep], wanted)
    assert not found[~keep].any()
    assert_close(same, states)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_step_by_step_is_the_whole(name):
    part, layout = layer(name), Packed.of([4, 4, 4])
    x = torch.randn(12, 5)
    with torch.no_grad():
        wanted, last = part(x, layout)
        _, states = part(x[:0], Packed.of([0, 0, 0]))
        rows = []
        for column in layout.pad(x)[0].unbind(1):
            row, states = part.step(column, states)
            rows.append(row)
    assert_close(torch.stack(rows, 1).flatten(0, 1), wanted, atol=1e-6, rtol=1e-6)
    assert_close(states, last, atol=1e-6, rtol=1e-6)


def test_starting_states_belong_to_their_sequences():
    part = layer("lstm")
    start = tuple(torch.randn(2, 3, 4) for _ in range(2))
    x = torch.randn(3, 5)
    with torch.no_grad():
        read, states = part(x, Packed.of([1, 0, 2]), start)
        alone, _ = part.core(x[:1], tuple(state[:, 0] for state in start))
    assert_close(read[:1], alone)
    assert torch.equal(states[0][:, 1], start[0][:, 1])


def test_directions_lie_side_by_side():
    part = layer("lstm in both directions")
    with torch.no_grad():
        read, states = part(torch.randn(3, 5), Packed.of([3]))
    hidden, _ = joined_directions(states)
    assert_close(hidden[-1, 0], torch.cat((read[-1, :4], read[0, 4:])))


@given(lengths=lengths)
def test_reversed_twice_is_unchanged(lengths):
    layout = Packed.of(lengths)
    back = reversed_places(layout)
    assert torch.equal(back[back], torch.arange(sum(lengths)))
    for own in layout.split(back):
        assert own.tolist() == sorted(own.tolist(), reverse=True)


@pytest.mark.parametrize("name", CORES)
def test_autocast_leaves_it_in_full_precision(name):
    part, layout = layer(name), Packed.of([3, 2])
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, _ = part(x, layout)
        with torch.autocast("cpu", torch.bfloat16):
            read, states = part(x, layout)
            from_half, _ = part(x.bfloat16(), layout)
    assert_close(read, expected, atol=0, rtol=0)
    assert {state.dtype for state in states} == {from_half.dtype} == {torch.float32}
