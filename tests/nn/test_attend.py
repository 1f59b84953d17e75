"""All back-ends and both layouts compute the same attention."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.attend import _sdpa_by_padding, attend
from clearhead.nn.layout import Packed, Padded

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
    assert_close(_sdpa_by_padding(q, k, v, layout, window, 0.0), expected)  # what "sdpa" means on a GPU
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


def test_varlen_kernel_agrees_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("the variable-length kernel runs on CUDA")
    for lengths in LENGTHS[:4]:
        for window in (None, 0, 2):
            layout = Packed.of(lengths, "cuda")
            q, k, v = (x.to("cuda", torch.bfloat16) for x in tokens(layout))
            expected = attend(q.float(), k.float(), v.float(), layout.using("explicit"), window=window)
            assert_close(attend(q, k, v, layout, window=window).float(), expected, atol=2e-2, rtol=2e-2)


def test_back_ends_that_cannot_say_so():
    layout = Packed.of([3])
    q, k, v = tokens(layout)
    padded = layout.pad(q)[1]
    with pytest.raises(BadInput, match="'varlen' needs a packed layout"):
        attend(*(layout.pad(x)[0] for x in (q, k, v)), padded.using("varlen"))
    with pytest.raises(BadInput, match="'explicit' has no dropout"):
        attend(q, k, v, layout.using("explicit"), dropout=0.1)
