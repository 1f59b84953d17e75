import copy
import io
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from clearhead.nn.fused import gated, linear, linear_add
from clearhead.nn.lora import LoRA


@pytest.mark.parametrize("act", ["none", "gelu"])
@pytest.mark.parametrize("shape", [(7, 8), (2, 3, 8), (0, 8)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_the_quick_way_equals_the_plain_one(act, shape, bias):
    layer, x = nn.Linear(8, 5, bias=bias), torch.randn(shape)
    plain = F.gelu(layer(x)) if act == "gelu" else layer(x)
    assert_close(linear(layer, x, act), plain)
    with torch.inference_mode():
        assert_close(linear(layer, x, act), plain.detach())
        assert_close(linear(layer.double(), x.double(), act).float(), plain.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("make", [nn.Linear, lambda i, o: LoRA(nn.Linear(i, o), rank=2)])
def test_a_sum_inside_the_product_is_the_sum(make):
    layer, x, residual = make(8, 5), torch.randn(3, 8), torch.randn(3, 5)
    with torch.inference_mode():
        assert_close(linear_add(residual, layer, x), residual + layer(x))
    assert_close(linear_add(residual, layer, x), residual + layer(x))


@pytest.mark.parametrize("shape", [(7, 8), (2, 3, 8), (0, 8)], ids=str)
@pytest.mark.parametrize(
    "make", [nn.Linear, partial(nn.Linear, bias=False), lambda i, o: LoRA(nn.Linear(i, o), rank=2)]
)
def test_a_gate_lets_through_what_it_should(make, shape):
    layer, x = make(8, 10), torch.randn(shape)
    value, gate = layer(x).chunk(2, -1)
    expected = F.gelu(value) * gate
    assert_close(gated(layer, x), expected)
    with torch.inference_mode():
        assert_close(gated(layer, x), expected.detach())
        for weight in layer.parameters():
            weight.mul_(2.0)
        value, gate = layer(x).chunk(2, -1)
        assert_close(gated(layer, x), F.gelu(value) * gate)
        assert_close(linear(layer, x), layer(x))  # whole, after it was cut


def test_a_wrapped_layer_is_called_as_it_is():
    wrapped = LoRA(nn.Linear(8, 5), rank=2)
    nn.init.normal_(wrapped.up)
    x = torch.randn(3, 8)
    with torch.inference_mode():
        assert_close(linear(wrapped, x), wrapped(x))


def test_weights_that_change_are_seen():
    layer, x = nn.Linear(8, 5), torch.randn(3, 8)

    def same() -> bool:
        with torch.inference_mode():
            return torch.allclose(linear(layer, x), F.linear(x, layer.weight, layer.bias), atol=1e-6)

    assert same()
    with torch.no_grad():
        layer.weight.mul_(2)
    assert same()
    layer.weight.data = torch.randn(5, 8)
    assert same()
    layer.weight = nn.Parameter(torch.randn(5, 8))
    assert same()
    layer.load_state_dict(nn.Linear(8, 5).state_dict())
    assert same()


def test_a_layer_that_has_been_used_can_be_copied_and_saved():
    layer, x = nn.Linear(8, 5), torch.randn(3, 8)
    with torch.inference_mode():
        first = linear(layer, x)
        assert_close(linear(copy.deepcopy(layer), x), first)
    torch.save(layer.state_dict(), io.BytesIO())
