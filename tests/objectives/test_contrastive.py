"""Sentence vectors: in-batch negatives and cosine regression, by plain loops."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.objectives.classification import cosine_regression, in_batch_negatives, similarity_ranking

torch.set_num_threads(1)


def vectors() -> torch.Tensor:
    return torch.randn(8, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()


def cosines(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.stack([F.cosine_similarity(a, p, dim=0) for p in x[4:]]) for a in x[:4]])


def test_each_anchor_looks_for_its_positive():
    x = vectors()
    loss, scores = in_batch_negatives(x), 20 * cosines(x)
    expected = F.cross_entropy(scores, torch.arange(4))
    assert loss.count == 4
    assert_close(loss.mean, expected)
    (got,), (wanted,) = torch.autograd.grad(loss.mean, x), torch.autograd.grad(expected, x)
    assert_close(got, wanted, atol=1e-6, rtol=1e-5)
    assert int(loss.metrics["accuracy"][0]) == int((scores.argmax(1) == torch.arange(4)).sum())


def test_half_precision_is_computed_in_full():
    x = vectors().detach().bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = in_batch_negatives(x)
    assert loss.total.dtype == torch.float32
    assert_close(loss.total, in_batch_negatives(x.float()).total)


def test_cosine_regression_is_the_squared_error():
    x, wanted = vectors(), torch.tensor([1.0, 0.2, -0.5, 0.0])
    loss = cosine_regression(x, wanted)
    assert loss.count == 4
    assert_close(loss.mean, ((cosines(x).diagonal() - wanted) ** 2).mean())


def test_the_more_similar_of_two_pairs_has_the_greater_cosine():
    x, wanted = vectors(), torch.tensor([1.0, 0.2, -0.5, 0.2])
    own = cosines(x).diagonal()
    twos = [(a, b) for a in range(4) for b in range(4) if wanted[a] > wanted[b]]
    assert len(twos) == 5, "of the six twos, one has equal similarities"
    expected = torch.log(1 + sum(torch.exp(7 * (own[b] - own[a])) for a, b in twos))
    loss = similarity_ranking(x, wanted, scale=7)
    assert loss.count == 4
    assert_close(loss.mean, expected)
    (got,), (slope,) = torch.autograd.grad(loss.mean, x), torch.autograd.grad(expected, x)
    assert_close(got, slope, atol=1e-6, rtol=1e-5)


def test_equal_similarities_have_no_order():
    loss = similarity_ranking(x := vectors(), torch.ones(4))
    assert loss.total.item() == 0
    assert not torch.autograd.grad(loss.total, x)[0].any()


def test_an_odd_number_of_sequences_is_refused():
    with pytest.raises(BadInput, match="7 sequences are no pairs; give all anchors, then all positives"):
        in_batch_negatives(vectors()[:7])
