from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward, PostNormBlock, PreNormBlock
from clearhead.nn.fused import can_fuse
from clearhead.nn.layout import Packed
from clearhead.nn.positions import Rotary

LAYOUT = Packed.of([3, 3, 1, 0, 5])
X = torch.randn(12, 16)


def block(**options):
    attention = MultiHeadAttention(16, 4, **options)
    return PostNormBlock(attention, FeedForward(16, 32, act="gelu"), partial(nn.LayerNorm, 16), 0.5).eval()


def modern(bias=False, first=False, act="gelu", **options):
    attention = MultiHeadAttention(16, 4, bias=bias, rotary=Rotary(4, 1e4, 8), **options)
    feedforward = GatedFeedForward(16, 24, act=act, bias=bias)
    return PreNormBlock(attention, feedforward, partial(nn.LayerNorm, 16, bias=bias), 0.5, first=first).eval()


BLOCKS = {
    "post": block,
    "pre": modern,
    "first": partial(modern, first=True),
    "biased": partial(modern, bias=True),
    "wide enough": partial(modern, window=4),
    "silu": partial(modern, act="silu"),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_short_way_gives_the_same_numbers(kind):
    one = BLOCKS[kind]()
    with torch.no_grad():
        expected = one(X, LAYOUT)
    with torch.inference_mode():
        assert can_fuse(one, X, LAYOUT)
        assert_close(one(X, LAYOUT), expected)
        assert_close(one(X[:3], Packed.of([3])), expected[:3])


@pytest.mark.parametrize(
    ("kind", "part"),
    [(k, p) for k in ("post", "pre") for p in ("attention", "attention.attend", "feedforward", "norm_1", "norm_2")]
    + [("pre", "attention.rotary")],
)
def test_who_looks_inside_sees_everything(kind, part):
    one, seen = BLOCKS[kind](), []
    with torch.inference_mode():
        expected = one(X, LAYOUT)
        one.get_submodule(part).register_forward_hook(lambda *call: seen.append(call))
        assert_close(one(X, LAYOUT), expected)
    assert len(seen) == 1


def test_only_blocks_in_use_on_packed_tokens_that_see_all_take_it():
    assert not can_fuse(block(), X, LAYOUT)
    with torch.inference_mode():
        assert not can_fuse(block().train(), X, LAYOUT)
        assert not can_fuse(block(), X, LAYOUT.using("explicit"))
        assert not can_fuse(block(), X.double(), LAYOUT)
        assert not can_fuse(block(window=3), X, LAYOUT)
        assert not can_fuse(modern(window=3), X, LAYOUT)


def test_training_keeps_to_the_usual_way():
    one = modern().train()
    one(X, LAYOUT).sum().backward()
    assert all(weight.grad is not None for weight in one.parameters())
