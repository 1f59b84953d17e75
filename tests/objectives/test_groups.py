"""Answer spans and choices: a softmax over groups of unequal size equals the padded computation."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.nn.layout import Packed
from clearhead.objectives.classification import answer_span, answerable, multiple_choice

torch.set_num_threads(1)
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def padded(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Lay groups out as a rectangle filled up with -inf."""
    return torch.nn.utils.rnn.pad_sequence(list(x.split(sizes)), batch_first=True, padding_value=-torch.inf)


def logits_for(*shape: int, seed: int) -> torch.Tensor:
    return (10 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).requires_grad_()


@settings(max_examples=30, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 1000))
def test_spans_equal_the_padded_softmax_and_its_gradient(sizes, seed):
    logits = logits_for(sum(sizes), 2, seed=seed)
    starts = torch.tensor([seed % size for size in sizes])
    ends = torch.tensor([(seed * 3 + 1) % size for size in sizes])
    loss = answer_span(logits, Packed.of(sizes), starts, ends)
    start, end = padded(logits, sizes).unbind(-1)
    expected = (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2
    assert int(loss.count) == len(sizes)
    assert_close(loss.mean, expected)
    (got,), (wanted,) = torch.autograd.grad(loss.mean, logits), torch.autograd.grad(expected, logits)
    assert_close(got, wanted, atol=1e-6, rtol=1e-5)
    right = (start.argmax(1) == starts) & (end.argmax(1) == ends)
    assert int(loss.metrics["accuracy"][0]) == int(right.sum())


def test_answers_outside_their_sequence_are_ignored():
    layout = Packed.of([3, 0, 2, 4, 3])
    starts, ends = torch.tensor([1, 0, -1, 2, 1]), torch.tensor([2, 0, 1, 4, 0])
    logits = logits_for(12, 2, seed=0)
    assert answerable(layout, starts, ends).tolist() == [True, False, False, False, True]
    loss = answer_span(logits, layout, starts, ends)
    alone = answer_span(
        torch.cat([logits[:3], logits[9:]]), Packed.of([3, 3]), torch.tensor([1, 1]), torch.tensor([2, 0])
    )
    assert int(loss.count) == 2
    assert_close(loss.total, alone.total)
    loss.total.backward()
    assert logits.grad[3:9].abs().sum() == 0
    assert logits.grad.isfinite().all()


def test_very_large_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    loss = answer_span(logits, Packed.of([2]), torch.tensor([0]), torch.tensor([1]))
    assert float(loss.total.detach()) == 0
    assert int(loss.metrics["accuracy"][0]) == 1


@settings(max_examples=30, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 1000))
def test_choices_equal_the_padded_softmax_and_its_gradient(sizes, seed):
    logits = logits_for(sum(sizes), 1, seed=seed)
    choice = torch.tensor([seed % size for size in sizes])
    loss = multiple_choice(logits, torch.tensor(sizes), choice)
    expected = F.cross_entropy(padded(logits.squeeze(-1), sizes), choice)
    assert loss.count == len(sizes)
    assert_close(loss.mean, expected)
    (got,), (wanted,) = torch.autograd.grad(loss.mean, logits), torch.autograd.grad(expected, logits)
    assert_close(got, wanted, atol=1e-6, rtol=1e-5)
    assert int(loss.metrics["accuracy"][0]) == int((padded(logits[:, 0], sizes).argmax(1) == choice).sum())
