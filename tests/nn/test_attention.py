"""The lectures' worked numbers, and what they say of attention."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.nn.attention import MultiHeadAttention, key_value, scaled_dot_product, scaled_scores, self_attention
from clearhead.nn.layout import Padded


def test_thinking_machines():
    """Scores 112 and 96, d_k = 64: divided by 8 they are 14 and 12, and the softmax is 0.88 and 0.12."""
    q = torch.full((1, 64), 1.0)
    k = torch.stack([torch.full((64,), 112 / 64), torch.full((64,), 96 / 64)])
    v = torch.eye(2)
    assert_close(q @ k.T, torch.tensor([[112.0, 96.0]]))
    assert_close(scaled_scores(q, k), torch.tensor([[14.0, 12.0]]))
    out, weights = scaled_dot_product(q, k, v)
    assert [round(weight, 2) for weight in weights[0].tolist()] == [0.88, 0.12]
    assert_close(out, weights)


def test_man_woman_child():
    """Queries over ⟨man, woman, child⟩, keys boy and girl, values over ⟨child, female, male⟩."""
    queries = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]])  # man, woman
    keys = torch.tensor([[0.7, 0.0, 0.5], [0.0, 0.7, 0.5]])  # boy, girl
    values = torch.tensor([[1.0, 0, 1.0], [1.0, 1.0, 0]])  # boy: a male child; girl: a female child
    assert_close(queries @ keys.T, torch.tensor([[0.7, 0.0], [0.0, 0.7]]))  # man is nearer boy, woman nearer girl
    assert_close(key_value(queries, keys, values), torch.tensor([[0.7, 0.0, 0.7], [0.7, 0.7, 0.0]]))


def test_heads_side_by_side_then_back_to_the_width():
    """The slide's a = 2 heads, n inputs of width m: n×(a·d), times O, gives n×m again."""
    attention = MultiHeadAttention(width=4, heads=2)
    x = torch.randn(1, 3, 4)
    seen = []
    attention.output.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    assert attention(x, Padded.full(x[..., 0])).shape == (1, 3, 4)
    assert seen == [(1, 3, 2 * 2)]


def test_several_heads_are_several_attentions():
    attention = MultiHeadAttention(width=6, heads=3)
    x = torch.randn(1, 5, 6)
    q, k, v = attention.qkv(x).chunk(3, -1)
    by_hand = [scaled_dot_product(*(part[..., 2 * head : 2 * head + 2] for part in (q, k, v)))[0] for head in range(3)]
    assert_close(attention(x, Padded.full(x[..., 0])), attention.output(torch.cat(by_hand, -1)))


@pytest.mark.parametrize(
    "attention", [self_attention, lambda x: MultiHeadAttention(8, 2)(x[None], Padded.full(x[None, :, 0]))[0]]
)
def test_order_does_not_matter_without_positions(attention):
    """Permutation equivariance: shuffled words in, equally shuffled vectors out."""
    x, order = torch.randn(7, 8), torch.randperm(7)
    torch.manual_seed(0)
    straight = attention(x)
    torch.manual_seed(0)
    assert_close(attention(x[order]), straight[order], atol=1e-5, rtol=1e-5)


def test_self_attention_by_hand():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    e = torch.e
    assert_close(self_attention(x), torch.tensor([[e, 1.0], [1.0, e]]) / (e + 1))


def test_a_query_that_may_see_nothing_gets_zeros_and_a_finite_gradient():
    q = torch.randn(3, 4, requires_grad=True)
    allowed = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
    out, weights = scaled_dot_product(q, torch.randn(3, 4), torch.randn(3, 4), allowed)
    assert_close(out[1], torch.zeros(4))
    assert weights[0, 2] == 0
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
