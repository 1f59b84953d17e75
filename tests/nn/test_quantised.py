import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.quantised import QuantisedLinear, available

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
