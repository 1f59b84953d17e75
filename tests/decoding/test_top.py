import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.decoding.generate import top


@given(width=st.sampled_from([5, 300, 4096, 4097, 9001]), count=st.integers(1, 9), seed=st.integers(0, 9))
def test_the_largest_are_the_largest(width, count, seed):
    scores = torch.randn(3, width, generator=torch.Generator().manual_seed(seed))
    values, places = top(scores, count)
    torch.testing.assert_close(values, scores.topk(min(count, width)).values, atol=0, rtol=0)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


def test_what_is_forbidden_comes_last():
    scores = torch.full((1, 5000), -torch.inf)
    scores[0, 4999] = 1.0
    assert top(scores, 1)[1].item() == 4999
