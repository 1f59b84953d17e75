"""Fused linear maps and blocks give the numbers of the plain ones."""

import copy
import gc
import io
import weakref
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from clearhead.models.bert import Bert, BertConfig
from clearhead.models.modernbert import ModernBert, ModernBertConfig
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward, PostNormBlock, PreNormBlock
from clearhead.nn.fused import can_fuse, captured, gated, linear, linear_add
from clearhead.nn.layout import Packed
from clearhead.nn.lora import LoRA
from clearhead.nn.positions import Rotary


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


def encoder_of(kind: str) -> nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    if kind == "bert":
        return Bert(BertConfig(vocab_size=50, max_position_embeddings=256, **sizes)).eval()
    config = ModernBertConfig(vocab_size=50, max_position_embeddings=128, local_attention=16, pad_token_id=0, **sizes)
    encoder = ModernBert(config)
    encoder.embeddings.add_capitals().data.normal_()
    return encoder.eval()


def usual(encoder: nn.Module, ids: torch.Tensor, segments: torch.Tensor | None) -> torch.Tensor:
    """What the modules give: a hook forbids the functions."""
    with torch.inference_mode():
        handle = encoder.blocks[0].attention.attend.register_forward_hook(lambda *_: None)
        out = encoder(ids, Packed.of([len(ids)]), segments)
        handle.remove()
    return out


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
@pytest.mark.parametrize("length", [1, 9, 15, 16, 20, 70, 128])
@pytest.mark.parametrize("paired", [False, True])
def test_one_text_alone_gets_the_same_numbers(kind, length, paired):
    encoder, ids = encoder_of(kind), torch.randint(50, (length,))
    segments = torch.arange(length).remainder(2) if paired else None
    layout = Packed.of([length])
    with torch.inference_mode():
        # of ModernBERT, a window of 8 neighbours would have to be masked in longer texts
        assert (captured(encoder, layout) is not None) == (kind == "bert" or length <= 9)
        assert_close(encoder(ids, layout, segments), usual(encoder, ids, segments), atol=1e-5, rtol=1e-5)


def test_one_text_alone_gets_the_same_numbers_by_the_fused_kernel():
    encoder, ids = encoder_of("bert"), torch.randint(50, (140,))
    with torch.inference_mode():
        found = encoder(ids, Packed.of([140]))
    assert_close(found, usual(encoder, ids, None), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda encoder: encoder.blocks[1].feedforward.up.weight.mul_(2),
        lambda encoder: setattr(encoder.embeddings.token.weight, "data", torch.randn(50, 32)),
        lambda encoder: setattr(encoder.blocks[0].norm_1, "bias", nn.Parameter(torch.randn(32))),
        lambda encoder: setattr(encoder.blocks[0].attention, "qkv", nn.Linear(32, 96)),
        lambda encoder: encoder.blocks.__setitem__(0, encoder_of("bert").blocks[1]),
    ],
)
def test_a_change_is_seen_by_one_text_alone(change):
    encoder, ids = encoder_of("bert"), torch.randint(50, (9,))
    with torch.inference_mode():
        before = encoder(ids, Packed.of([9]))
    with torch.no_grad():
        change(encoder.eval())
    encoder.eval()
    with torch.inference_mode():
        after = encoder(ids, Packed.of([9]))
    assert not torch.allclose(before, after)
    assert_close(after, usual(encoder, ids, None), atol=1e-5, rtol=1e-5)


def test_hooks_training_and_gradients_keep_one_text_on_the_usual_way():
    encoder, layout = encoder_of("bert"), Packed.of([9])
    assert captured(encoder, layout) is None
    with torch.inference_mode():
        assert captured(encoder, layout) is not None
        assert captured(encoder, Packed.of([4, 5])) is None
        assert captured(encoder, layout.using("explicit")) is None
        for part in (encoder.blocks[1].norm_2, encoder.embeddings.token):
            seen = []
            handle = part.register_forward_hook(lambda *_, seen=seen: seen.append(1))
            encoder(torch.randint(50, (9,)), layout)
            handle.remove()
            assert seen
        encoder.blocks[0].dropout.train()
        assert captured(encoder, layout) is None


def test_a_captured_encoder_is_let_go():
    encoder = encoder_of("bert")
    with torch.inference_mode():
        encoder(torch.randint(50, (9,)), Packed.of([9]))
    gone = weakref.ref(encoder)
    del encoder
    gc.collect()
    assert gone() is None
