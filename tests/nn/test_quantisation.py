from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward, PreNormBlock
from clearhead.nn.fused import can_fuse
from clearhead.nn.layout import Packed
from clearhead.nn.positions import Rotary
from clearhead.nn.quantisation import (
    CalibratedFeedForward,
    CalibratedLinear,
    QuantisedLinear,
    Range,
    Weights,
    available,
    is_int8,
)

pytestmark = pytest.mark.skipif(not available(), reason="this processor has no VNNI")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 16), (0, 16)], ids=str)
def test_it_is_the_linear_map_rounded(bias, shape):
    layer, x = nn.Linear(16, 24, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        expected, found = layer(x), QuantisedLinear(layer.weight, layer.bias)(x)
    assert found.shape == expected.shape
    assert_close(found, expected, atol=0.03, rtol=0.03)


def test_the_numbers_are_those_of_rounding_by_hand():
    layer, x = nn.Linear(16, 8), torch.randn(5, 16)
    with torch.inference_mode():
        weight = layer.weight / (scale := layer.weight.abs().amax(1, keepdim=True) / 127)
        token = x / (steps := x.abs().amax(1, keepdim=True) / 127)
        by_hand = (token.round() @ weight.round().T) * steps * scale.T + layer.bias
        assert_close(QuantisedLinear(layer.weight, layer.bias)(x), by_hand, atol=1e-5, rtol=1e-4)


def test_a_token_is_rounded_by_itself_whatever_stands_beside_it():
    layer, x = nn.Linear(16, 8), torch.randn(5, 16)
    beside = torch.cat([x, 1000 * torch.randn(3, 16), torch.zeros(1, 16)])
    with torch.inference_mode():
        small = QuantisedLinear(layer.weight, layer.bias)
        assert_close(small(beside)[:5], small(x))
        assert_close(small(beside)[-1], layer.bias.detach())


def test_what_it_cannot_do_is_said():
    small = QuantisedLinear(torch.randn(4, 16), None)
    assert repr(small) == "QuantisedLinear(in_features=16, out_features=4)"
    with pytest.raises(BadInput, match="int8 layer has no gradients; use the model in fp32"):
        small(torch.randn(2, 16, requires_grad=True))
    with pytest.raises(BadInput, match="computes on the CPU, not on meta"):
        small(torch.randn(2, 16, device="meta"))


def seen(x):
    return Range(x.flatten(0, -2).amin(0), x.flatten(0, -2).amax(0))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 16), (0, 16)], ids=str)
def test_steps_known_beforehand_are_fine_enough_for_wide_and_narrow_features(bias, shape):
    width = torch.logspace(-2, 1, 16)
    layer, sample, x = nn.Linear(16, 24, bias=bias), torch.randn(500, 16) * width, torch.randn(shape) * width
    with torch.inference_mode():
        expected, found = layer(x), CalibratedLinear(layer.weight, layer.bias, seen(sample))(x)
    assert found.shape == expected.shape
    assert_close(found, expected, atol=0.15, rtol=0.05)


def test_what_goes_far_beyond_the_sample_is_cut_off():
    layer = nn.Linear(4, 3, bias=False)
    with torch.inference_mode():
        small = CalibratedLinear(layer.weight, None, Range(-torch.ones(4), torch.ones(4)))
        assert_close(small(torch.full((1, 4), 50.0)), small(torch.full((1, 4), 500.0)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 32), (2, 3, 32), (0, 32)], ids=str)
def test_a_feedforward_keeps_its_inner_values_as_bytes_and_a_few_that_go_far_as_floats(bias, shape):
    part, sample, x = FeedForward(32, 128, act="gelu", bias=bias), torch.randn(500, 32), torch.randn(shape)
    with torch.inference_mode():
        part.up.weight[5] *= 50
        inner = seen(part.inner(sample))
        weights = [Weights(one.weight, one.bias) for one in (part.up, part.down)]
        small = CalibratedFeedForward(*weights, seen(sample), inner)
        expected, found = part(x), small(x)
        assert_close(found, expected, atol=0.06, rtol=0.06)
        if len(x):
            assert_close(small.add_to(x, x), x + found)
            assert_close(small(torch.cat([1000 * x, x]))[len(x) :], found)
    assert is_int8(nn.Sequential(small))


def test_a_gated_block_multiplies_in_8_bits_on_the_short_way():
    attention = MultiHeadAttention(32, 4, bias=False, rotary=Rotary(8, 1e4, 8))
    feedforward = GatedFeedForward(32, 64, act="gelu", bias=False)
    block = PreNormBlock(attention, feedforward, partial(nn.LayerNorm, 32), 0.0).eval()
    x, layout = torch.randn(9, 32), Packed.of([4, 4, 1])
    with torch.inference_mode():
        expected = block(x, layout)
        for part, name in ((attention, "qkv"), (attention, "output"), (feedforward, "up"), (feedforward, "down")):
            setattr(part, name, QuantisedLinear(getattr(part, name).weight, None))
        assert can_fuse(block, x, layout)
        assert_close(block(x, layout), expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("bias", [True, False])
def test_few_tokens_get_the_numbers_of_many(bias):
    torch.manual_seed(0)
    up, down = nn.Linear(32, 64, bias=bias), nn.Linear(64, 32, bias=bias)
    x = torch.randn(200, 32)
    seen, inner = Range(x.amin(0), x.amax(0)), torch.nn.functional.gelu(up(x)).detach()
    weights = [Weights(layer.weight, layer.bias) for layer in (up, down)]
    maps = [
        QuantisedLinear(*weights[0]),
        CalibratedLinear(*weights[0], seen),
        CalibratedFeedForward(*weights, seen, Range(inner.amin(0), inner.amax(0))),
    ]
    for part in maps:
        with torch.inference_mode():
            many, few = part(x), part(x[:9])
        # GELU is another one, so that a value in the middle of two steps may be rounded to either
        assert_close(few, many[:9], atol=1e-5 if part is not maps[2] else 5e-3, rtol=1e-5)
