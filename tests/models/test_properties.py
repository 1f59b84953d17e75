"""Padding and company never change an answer, whatever the family and the layout."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from clearhead.hub.checkpoint import build_network
from clearhead.hub.config import Description
from clearhead.models import ENCODERS
from clearhead.nn.heads import Network
from clearhead.nn.layout import Layout, Packed, Padded
from references import MODELS, outputs_of, randomised

HEADS = ("masked_lm", "classes")
lengths = st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any)


@cache
def network_of(model: str) -> Network:
    family, values = MODELS[model]
    config = ENCODERS[family].config(**values)
    outputs = {head: outputs_of(head, config) for head in HEADS}
    return randomised(build_network(Description(family=family, config=config), outputs), seed=3).eval()


def answers(model: str, ids: Tensor, layout: Layout, segments: Tensor) -> tuple[Tensor, Tensor]:
    """Run: logits of all real tokens in order (N, V), and of the sequences (B, L)."""
    with torch.no_grad():
        tokens, classes = (network_of(model)(head, ids, layout, segments) for head in HEADS)
    return (tokens[layout.keep] if isinstance(layout, Padded) else tokens), classes


def draw(seed: int, count: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(5, 64, (count,), generator=rng), torch.randint(0, 2, (count,), generator=rng)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=15, deadline=None)
@given(
    lengths=lengths, left=st.integers(0, 4), right=st.integers(0, 4), junk=st.integers(0, 63), seed=st.integers(0, 99)
)
def test_padding_never_changes_an_answer(model, lengths, left, right, junk, seed):
    ids, segments = draw(seed, sum(lengths))
    packed = Packed.of(lengths)
    wanted = answers(model, ids, packed, segments)
    place = torch.arange(left + max(lengths) + right)
    keep = (place >= left) & (place < left + torch.tensor(lengths)[:, None])
    padded = torch.full(keep.shape, junk)
    padded[keep] = ids
    sides = torch.zeros_like(padded)
    sides[keep] = segments
    assert_close(answers(model, padded, Padded.of(keep), sides), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=15, deadline=None)
@given(lengths=lengths, order=st.randoms(use_true_random=False), seed=st.integers(0, 99))
def test_batch_order_never_changes_an_answer(model, lengths, order, seed):
    ids, segments = draw(seed, sum(lengths))
    layout = Packed.of(lengths)
    tokens, classes = answers(model, ids, layout, segments)
    shuffled = order.sample(range(len(lengths)), len(lengths))
    moved = Packed.of([lengths[i] for i in shuffled])

    def rearranged(x: Tensor) -> Tensor:
        parts = layout.split(x)
        return torch.cat([parts[i] for i in shuffled])

    got = answers(model, rearranged(ids), moved, rearranged(segments))
    assert_close(got, (rearranged(tokens), classes[shuffled]), atol=1e-5, rtol=1e-5)
