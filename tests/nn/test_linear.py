import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from clearhead.nn.linear import linear
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


def test_a_wrapped_layer_is_called_as_it_is():
    wrapped = LoRA(nn.Linear(8, 5), rank=2)
    nn.init.normal_(wrapped.up)
    x = torch.randn(3, 8)
    with torch.inference_mode():
        assert_close(linear(wrapped, x), wrapped(x))
