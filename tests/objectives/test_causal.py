"""The language-model objective: a sum over what is to be learnt, smoothed or not, and its perplexity."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.data.pretraining import with_neighbours
from clearhead.evaluation.perplexity import perplexity
from clearhead.objectives.language import causal_lm


def test_only_what_follows_is_counted():
    batch = with_neighbours(Batch.of([[1, 2, 3], [4]]))
    logits = torch.randn(4, 6)
    loss = causal_lm(logits, batch.targets["next"])
    assert_close(loss.total, F.cross_entropy(logits[:2], torch.tensor([2, 3]), reduction="sum"))
    assert int(loss.count) == 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_smoothing_changes_the_loss_and_not_the_perplexity(smoothing):
    logits, labels = torch.randn(5, 7), torch.tensor([1, IGNORE_INDEX, 3, 4, 6])
    loss = causal_lm(logits, labels, label_smoothing=smoothing)
    kept = labels != IGNORE_INDEX
    logp = logits[kept].log_softmax(-1)
    nll = -logp.gather(1, labels[kept].unsqueeze(1)).sum()
    assert_close(loss.total, (1 - smoothing) * nll - smoothing * logp.mean(-1).sum())
    assert_close(loss.metrics["nll"][0], nll)
    assert perplexity([float(loss.metrics["nll"][0])], [4]) == pytest.approx(math.exp(float(nll) / 4))


def test_nothing_to_learn_is_a_loss_of_zero():
    loss = causal_lm(torch.randn(2, 3), torch.tensor([IGNORE_INDEX, IGNORE_INDEX]), label_smoothing=0.1)
    assert float(loss.total) == 0
    assert int(loss.count) == 0
