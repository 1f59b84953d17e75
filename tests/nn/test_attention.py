"""The lectures' worked numbers; all back-ends and both layouts compute the same attention."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.attention import (
    MaskSpec,
    MultiHeadAttention,
    _by_padding,
    attend,
    key_value,
    scaled_dot_product,
    scaled_scores,
    self_attention,
)
from clearhead.nn.layout import Packed, Padded


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


LENGTHS = [[5, 3, 3, 9], [1], [1, 1, 4], [0, 2, 0, 7], [0], []]


def tokens(layout: Packed) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(sum(layout.lengths), 2, 8, dtype=torch.float64) for _ in "qkv"]


@pytest.mark.parametrize("window", [None, 0, 2])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_back_ends_and_layouts_agree(lengths, window):
    layout = Packed.of(lengths)
    q, k, v = tokens(layout)
    expected = one_sequence_at_a_time(q, k, v, layout, window)
    assert_close(
        _by_padding(q, k, v, layout, layout, MaskSpec(window=window), 0.0, "sdpa"), expected
    )  # what "sdpa" means on a GPU
    for backend in ("explicit", "sdpa"):
        assert_close(attend(q, k, v, layout.using(backend), window=window), expected)
        padded = layout.pad(q)[1].using(backend)
        out = attend(*(layout.pad(x)[0] for x in (q, k, v)), padded, window=window)
        assert_close(padded.pack(out)[0], expected)
        nobody = ~padded.keep.any(1)
        assert_close(out[nobody], torch.zeros_like(out[nobody]))  # nothing to attend to


def one_sequence_at_a_time(q, k, v, layout, window):
    out = torch.zeros_like(q)
    for start, end in zip(layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True):
        for i in range(start, end):
            near = [j for j in range(start, end) if window is None or abs(i - j) <= window]
            for head in range(q.shape[1]):
                scores = torch.stack([q[i, head] @ k[j, head] for j in near]) / q.shape[-1] ** 0.5
                out[i, head] = scores.softmax(0) @ v[near, head]
    return out


def test_padding_in_the_middle_does_not_widen_a_window():
    layout = Packed.of([4])
    q, k, v = tokens(layout)
    expected = attend(q, k, v, layout, window=1)
    rows = torch.tensor([0, 2, 3, 5])  # where the real tokens go in a longer row
    gapped = [torch.zeros(1, 6, 2, 8, dtype=x.dtype) for x in (q, k, v)]
    for target, x in zip(gapped, (q, k, v), strict=True):
        target[0, rows] = x
    keep = torch.zeros(1, 6, dtype=torch.bool)
    keep[0, rows] = True
    for backend in ("explicit", "sdpa"):
        assert_close(attend(*gapped, Padded.of(keep, backend), window=1)[0, rows], expected)


LENGTHS_OF_KEYS = [4, 4, 0, 7]


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_nobody_sees_what_comes_later(lengths, biased, window):
    layout = Packed.of(lengths)
    q, k, v = tokens(layout)
    bias = torch.randn(2, layout.max_length, layout.max_length, dtype=torch.float64) if biased else None
    expected = torch.cat(
        [
            one_row(q[first:last], k[first:last], v[first:last], bias, causal=True, window=window)
            for first, last in zip(layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True)
        ]
        or [q]
    )
    check_everywhere(q, k, v, layout, None, expected, causal=True, window=window, bias=bias)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("lengths", [[5, 3, 3, 9], [1, 1, 1, 1], [0, 2, 3, 0]], ids=str)
def test_keys_may_be_those_of_another_text(lengths, biased):
    layout, keys = Packed.of(lengths), Packed.of(LENGTHS_OF_KEYS)
    (q, _, _), (_, k, v) = tokens(layout), tokens(keys)
    bias = torch.randn(2, layout.max_length, keys.max_length, dtype=torch.float64) if biased else None
    expected = torch.cat(
        [one_row(*row, bias) for row in zip(layout.split(q), keys.split(k), keys.split(v), strict=True)]
    )
    check_everywhere(q, k, v, layout, keys, expected, bias=bias)


def one_row(q, k, v, bias, *, causal=False, window=None):
    """One sequence, spelled out: (T, H, K)."""
    if not len(k):
        return torch.zeros_like(q)
    scores = torch.einsum("thk,shk->hts", q, k) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias[:, : len(q), : len(k)]
    for i in range(len(q)):
        for j in range(len(k)):
            if (causal and j > i) or (window is not None and abs(i - j) > window):
                scores[:, i, j] = -torch.inf
    return torch.einsum("hts,shk->thk", scores.softmax(-1), v)


def check_everywhere(q, k, v, layout, keys, expected, **mask):
    """Compare every back-end and layout that a CPU has."""
    theirs = keys or layout
    by_padding = _by_padding(q, k, v, layout, theirs, MaskSpec(**mask), 0.0, "sdpa")  # what "sdpa" means on a GPU
    assert_close(by_padding, expected)
    for backend in ("explicit", "sdpa"):
        assert_close(attend(q, k, v, layout.using(backend), keys=keys, **mask), expected)
        (pq, mine), (pk, their), (pv, _) = layout.pad(q), theirs.pad(k), theirs.pad(v)
        out = attend(pq, pk, pv, mine.using(backend), keys=None if keys is None else their, **mask)
        assert_close(mine.pack(out)[0], expected)


def test_a_full_rectangle_needs_no_mask_to_be_causal():
    layout = Packed.of([4, 4])
    q, k, v = tokens(layout)
    full = Padded.full(torch.zeros(2, 4))
    for backend in ("explicit", "sdpa"):
        out = attend(*(x.unflatten(0, (2, 4)) for x in (q, k, v)), full.using(backend), causal=True)
        assert_close(out.flatten(0, 1), attend(q, k, v, layout, causal=True))


def test_varlen_kernel_agrees_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("the variable-length kernel runs on CUDA")
    for lengths in LENGTHS[:4]:
        for window in (None, 0, 2):
            layout = Packed.of(lengths, "cuda")
            q, k, v = (x.to("cuda", torch.bfloat16) for x in tokens(layout))
            expected = attend(q.float(), k.float(), v.float(), layout.using("explicit"), window=window)
            assert_close(attend(q, k, v, layout, window=window).float(), expected, atol=2e-2, rtol=2e-2)
            expected = attend(q.float(), k.float(), v.float(), layout.using("explicit"), window=window, causal=True)
            assert_close(attend(q, k, v, layout, window=window, causal=True).float(), expected, atol=2e-2, rtol=2e-2)
    layout, keys = Packed.of([5, 3, 3, 9], "cuda"), Packed.of(LENGTHS_OF_KEYS, "cuda")
    (q, _, _), (_, k, v) = (x.to("cuda", torch.bfloat16) for x in tokens(layout)), tokens(keys)
    k, v = (x.to("cuda", torch.bfloat16) for x in (k, v))
    expected = attend(q.float(), k.float(), v.float(), layout.using("explicit"), keys=keys)
    assert_close(attend(q, k, v, layout, keys=keys).float(), expected, atol=2e-2, rtol=2e-2)


def test_back_ends_that_cannot_say_so():
    layout = Packed.of([3])
    q, k, v = tokens(layout)
    padded = layout.pad(q)[1]
    with pytest.raises(BadInput, match="'varlen' needs a packed layout"):
        attend(*(layout.pad(x)[0] for x in (q, k, v)), padded.using("varlen"))
    with pytest.raises(BadInput, match="for a sequence that attends to itself; give no other keys"):
        attend(q, k, v, layout, keys=Packed.of([3]), causal=True)
    with pytest.raises(BadInput, match="laid out alike, both packed or both padded"):
        attend(q, k, v, layout, keys=padded)
    with pytest.raises(BadInput, match="'explicit' has no dropout"):
        attend(q, k, v, layout.using("explicit"), dropout=0.1)
