from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from clearhead.errors import BadConfig
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward, PostNormBlock, PreNormBlock
from clearhead.nn.layout import Padded

X = torch.randn(2, 3, 8)
LAYOUT = Padded.full(X[..., 0])
norm = partial(nn.LayerNorm, 8)


def test_both_residuals_of_the_2017_block():
    block = PostNormBlock(MultiHeadAttention(8, 2), FeedForward(8, 16, act="gelu"), norm, dropout=0.0)
    middle = block.norm_1(X + block.attention(X, LAYOUT))
    assert_close(block(X, LAYOUT), block.norm_2(middle + block.feedforward(middle)))


def test_pre_norm_leaves_the_residual_stream_untouched():
    block = PreNormBlock(MultiHeadAttention(8, 2), GatedFeedForward(8, 16, act="gelu"), norm, dropout=0.0)
    nn.init.zeros_(block.attention.output.weight)
    nn.init.zeros_(block.attention.output.bias)
    nn.init.zeros_(block.feedforward.down.weight)
    nn.init.zeros_(block.feedforward.down.bias)
    assert_close(block(X, LAYOUT), X)
    assert isinstance(PreNormBlock(nn.Identity(), nn.Identity(), norm, 0.0, first=True).norm_1, nn.Identity)


def test_gated_feed_forward_is_geglu():
    part = GatedFeedForward(8, 5, act="gelu", bias=False)
    value, gate = part.up.weight[:5], part.up.weight[5:]
    assert_close(part(X), (F.gelu(X @ value.T) * (X @ gate.T)) @ part.down.weight.T, atol=1e-5, rtol=1e-5)


def test_unknown_activation_is_refused():
    with pytest.raises(BadConfig, match="unknown activation 'swish2'; known: gelu"):
        FeedForward(8, 16, act="swish2")
