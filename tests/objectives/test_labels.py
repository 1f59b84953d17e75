"""Masked tokens, sentence pairs, classes, tags, regression: plain torch on the same numbers, sums and counts."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.objectives.classification import multi_label, regression, single_label, token_tags
from clearhead.objectives.language import masked_lm, sentence_pairs
from clearhead.objectives.loss import Loss

torch.set_num_threads(1)
LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 2, 1, 1, 0, 2])
TAGS = torch.tensor([0, -100, 1, 1, -100, 2])
WEIGHTS = torch.tensor([0.5, 1.0, 3.0])


@pytest.mark.parametrize("objective", [masked_lm, sentence_pairs, single_label, token_tags])
def test_cross_entropy_and_accuracy(objective):
    loss = objective(LOGITS, LABELS)
    assert_close(loss.mean, F.cross_entropy(LOGITS, LABELS))
    right, count = loss.metrics["accuracy"]
    assert int(count) == int(loss.count) == 6
    assert int(right) == sum(row.argmax() == label for row, label in zip(LOGITS, LABELS, strict=True))


def test_tokens_without_a_tag_are_ignored():
    loss = token_tags(LOGITS, TAGS)
    assert int(loss.count) == 4
    assert_close(loss.mean, F.cross_entropy(LOGITS[TAGS >= 0], TAGS[TAGS >= 0]))
    right, count = loss.metrics["accuracy"]
    assert int(count) == 4
    assert int(right) == int((LOGITS.argmax(-1) == TAGS).sum())


def test_a_batch_without_tags_adds_nothing():
    logits = LOGITS.clone().requires_grad_()
    loss = token_tags(logits, torch.full((6,), -100))
    loss.total.backward()
    assert float(loss.total.detach()) == 0
    assert int(loss.count) == 0
    assert_close(logits.grad, torch.zeros(6, 3))


def test_class_weights_multiply_each_item():
    each = F.cross_entropy(LOGITS, LABELS, reduction="none") * WEIGHTS[LABELS]
    loss = single_label(LOGITS, LABELS, class_weights=WEIGHTS)
    assert_close(loss.total, each.sum())
    assert loss.count == 6
    # torch divides by the weights instead
    assert_close(loss.total / WEIGHTS[LABELS].sum(), F.cross_entropy(LOGITS, LABELS, weight=WEIGHTS))
    kept = TAGS >= 0
    assert_close(token_tags(LOGITS, TAGS, class_weights=WEIGHTS).total, each[kept].sum())


def test_label_smoothing_is_a_mixture_with_the_uniform():
    log_chances = LOGITS.log_softmax(-1)
    plain = -log_chances.gather(1, LABELS[:, None]).squeeze(1)
    smooth = 0.9 * plain - 0.1 * log_chances.mean(-1)
    assert_close(single_label(LOGITS, LABELS, label_smoothing=0.1).total, smooth.sum())
    assert_close(token_tags(LOGITS, TAGS, label_smoothing=0.1).total, smooth[TAGS >= 0].sum())


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


@pytest.mark.parametrize("objective", [masked_lm, sentence_pairs, single_label, token_tags])
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
