"""Objectives of fine-tuning: equal to plain formulas, with what is ignored left out."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.layout import Packed
from clearhead.objectives.classification import (
    answer_span,
    answerable,
    cosine_regression,
    in_batch_negatives,
    multi_label,
    multiple_choice,
    regression,
    similarity_ranking,
)
from clearhead.objectives.language import masked_lm
from clearhead.objectives.loss import Loss, cross_entropy

torch.set_num_threads(1)
LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 2, 1, 1, 0, 2])
TAGS = torch.tensor([0, -100, 1, 1, -100, 2])
WEIGHTS = torch.tensor([0.5, 1.0, 3.0])


@pytest.mark.parametrize("objective", [masked_lm, cross_entropy])
def test_cross_entropy_and_accuracy(objective):
    loss = objective(LOGITS, LABELS)
    assert_close(loss.mean, F.cross_entropy(LOGITS, LABELS))
    right, count = loss.metrics["accuracy"]
    assert int(count) == int(loss.count) == 6
    assert int(right) == sum(row.argmax() == label for row, label in zip(LOGITS, LABELS, strict=True))


def test_tokens_without_a_tag_are_ignored():
    loss = cross_entropy(LOGITS, TAGS)
    assert int(loss.count) == 4
    assert_close(loss.mean, F.cross_entropy(LOGITS[TAGS >= 0], TAGS[TAGS >= 0]))
    right, count = loss.metrics["accuracy"]
    assert int(count) == 4
    assert int(right) == int((LOGITS.argmax(-1) == TAGS).sum())


def test_a_batch_without_tags_adds_nothing():
    logits = LOGITS.clone().requires_grad_()
    loss = cross_entropy(logits, torch.full((6,), -100))
    loss.total.backward()
    assert float(loss.total.detach()) == 0
    assert int(loss.count) == 0
    assert_close(logits.grad, torch.zeros(6, 3))


def test_class_weights_multiply_each_item():
    each = F.cross_entropy(LOGITS, LABELS, reduction="none") * WEIGHTS[LABELS]
    loss = cross_entropy(LOGITS, LABELS, class_weights=WEIGHTS)
    assert_close(loss.total, each.sum())
    assert loss.count == 6
    # torch divides by the weights instead
    assert_close(loss.total / WEIGHTS[LABELS].sum(), F.cross_entropy(LOGITS, LABELS, weight=WEIGHTS))
    kept = TAGS >= 0
    assert_close(cross_entropy(LOGITS, TAGS, class_weights=WEIGHTS).total, each[kept].sum())


def test_label_smoothing_is_a_mixture_with_the_uniform():
    log_chances = LOGITS.log_softmax(-1)
    plain = -log_chances.gather(1, LABELS[:, None]).squeeze(1)
    smooth = 0.9 * plain - 0.1 * log_chances.mean(-1)
    assert_close(cross_entropy(LOGITS, LABELS, label_smoothing=0.1).total, smooth.sum())
    assert_close(cross_entropy(LOGITS, TAGS, label_smoothing=0.1).total, smooth[TAGS >= 0].sum())


def test_many_classes_are_as_many_questions():
    classes = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    loss = multi_label(LOGITS, classes)
    assert loss.count == 18
    assert_close(loss.mean, F.binary_cross_entropy(LOGITS.sigmoid(), classes))
    assert int(loss.metrics["accuracy"][0]) == int(((LOGITS.sigmoid() > 0.5) == (classes > 0.5)).sum())
    assert_close(multi_label(LOGITS, classes.long()).total, loss.total)


def test_regression_is_the_squared_error():
    logits, scores = LOGITS[:, :1], torch.tensor([0.5, 1, 2, -1, 0, 3])
    loss = regression(logits, scores)
    assert loss.count == 6
    assert_close(loss.mean, ((logits[:, 0] - scores) ** 2).mean())


@pytest.mark.parametrize("objective", [masked_lm, cross_entropy])
def test_half_precision_logits_are_computed_in_full(objective):
    half = LOGITS.bfloat16()
    loss = objective(half, LABELS)
    assert loss.total.dtype == torch.float32
    assert_close(loss.total, F.cross_entropy(half.float(), LABELS, reduction="sum"), atol=0, rtol=0)


def test_nothing_masked_adds_nothing():
    loss = masked_lm(torch.zeros(0, 7), torch.zeros(0, dtype=torch.int64))
    assert isinstance(loss, Loss)
    assert float(loss.total) == 0
    assert loss.count == 0


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


def test_a_third_text_is_no_positive():
    x = torch.cat([vectors(), vectors()[:4].flip(0)])
    loss = in_batch_negatives(x, texts=3)
    scores = 20 * torch.stack([torch.stack([F.cosine_similarity(a, p, dim=0) for p in x[4:]]) for a in x[:4]])
    assert_close(loss.total, F.cross_entropy(scores, torch.arange(4), reduction="sum"))
    assert loss.count == 4


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
    with pytest.raises(BadInput, match="7 sequences are no items of 2; give all anchors, then all positives"):
        in_batch_negatives(vectors()[:7])
