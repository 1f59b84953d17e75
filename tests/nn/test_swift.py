from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.nn.blocks import FeedForward, GatedFeedForward, PostNormBlock
from clearhead.nn.layout import Packed
from clearhead.nn.multihead import MultiHeadAttention
from clearhead.nn.positions import Rotary
from clearhead.nn.swift import swift

LAYOUT = Packed.of([3, 3, 1, 0, 5])
X = torch.randn(12, 16)


def block(feedforward=FeedForward, **options):
    attention = MultiHeadAttention(16, 4, **options)
    return PostNormBlock(attention, feedforward(16, 32, act="gelu"), partial(nn.LayerNorm, 16), 0.5).eval()


def test_the_short_way_gives_the_same_numbers():
    one = block()
    with torch.no_grad():
        expected = one(X, LAYOUT)
    with torch.inference_mode():
        assert swift(one, X, LAYOUT)
        assert_close(one(X, LAYOUT), expected)
        assert_close(one(X[:3], Packed.of([3])), expected[:3])


@pytest.mark.parametrize("part", ["attention", "attention.attend", "feedforward", "norm_1", "norm_2"])
def test_who_looks_inside_sees_everything(part):
    one, seen = block(), []
    one.get_submodule(part).register_forward_hook(lambda *call: seen.append(call))
    with torch.inference_mode():
        one(X, LAYOUT)
    assert len(seen) == 1


def test_only_plain_blocks_in_use_on_packed_tokens_take_it():
    assert not swift(block(), X, LAYOUT)
    with torch.inference_mode():
        assert not swift(block().train(), X, LAYOUT)
        assert not swift(block(), X, LAYOUT.using("explicit"))
        assert not swift(block(), X.double(), LAYOUT)
        assert not swift(block(window=1), X, LAYOUT)
        assert not swift(block(rotary=Rotary(4, 1e4, 8)), X, LAYOUT)
        assert not swift(block(GatedFeedForward), X, LAYOUT)
