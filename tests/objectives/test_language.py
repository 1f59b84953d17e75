"""Objectives of language models: what is counted, drawn and judged."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.data.pretraining import with_neighbours
from clearhead.evaluation.perplexity import perplexity
from clearhead.objectives.language import agreement, causal_lm, corrupt, replaced_tokens, sample_tokens


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


torch.set_num_threads(1)
MASK = 4


def seeded(*parts):
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return torch.cat([sample_tokens(part) for part in parts])


def test_draws_follow_the_softmax():
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    logits = chances.log().expand(20_000, 5)
    drawn = seeded(logits)
    assert_close(drawn.bincount(minlength=5) / 20_000, chances, atol=0.012, rtol=0)
    assert not (drawn == 4).any()


def test_draws_are_repeatable_and_carry_no_gradient():
    logits = torch.randn(50, 9, requires_grad=True)
    first, second = (seeded(logits) for _ in range(2))
    assert torch.equal(first, second)
    assert not first.requires_grad


def test_draws_do_not_depend_on_how_a_batch_is_cut():
    logits = torch.randn(50, 9)
    assert torch.equal(seeded(logits), seeded(*logits.split([13, 37])))


def test_labels_are_exact():
    masked = Batch.of(
        [[1, MASK, 12, 2], [1, MASK, MASK, 23, 2]],
        targets={"where": torch.tensor([1, 5, 6]), "labels": torch.tensor([11, 21, 22])},
    )
    corrupted = corrupt(masked, torch.tensor([50, 21, 60]))  # the second is the original by luck
    assert corrupted.ids.tolist() == [1, 50, 12, 2, 1, 21, 60, 23, 2]
    assert corrupted.targets["replaced"].tolist() == [0, 1, 0, 0, 0, 0, 1, 0, 0]
    assert masked.ids.tolist() == [1, MASK, 12, 2, 1, MASK, MASK, 23, 2]  # untouched
    assert corrupted.layout is masked.layout


def test_a_token_that_was_chosen_but_not_masked_is_judged_alike():
    kept = Batch.of([[1, 11, 12, 2]], targets={"where": torch.tensor([1]), "labels": torch.tensor([11])})
    assert corrupt(kept, torch.tensor([11])).targets["replaced"].tolist() == [0, 0, 0, 0]
    assert corrupt(kept, torch.tensor([12])).targets["replaced"].tolist() == [0, 1, 0, 0]


def test_all_tokens_are_judged():
    logits, replaced = torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0])
    loss = replaced_tokens(logits, replaced)
    assert loss.count == 4
    assert_close(loss.mean, F.binary_cross_entropy(logits.sigmoid(), replaced.float()))
    assert [int(x) for x in loss.metrics["accuracy"]] == [2, 4]
    assert [int(x) for x in loss.metrics["recall"]] == [1, 2]


def test_it_is_half_of_the_mean_of_both_divergences():
    first, second = torch.randn(2, 5, 7)
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    both = F.kl_div(q, p, log_target=True, reduction="sum") + F.kl_div(p, q, log_target=True, reduction="sum")
    loss = agreement(torch.cat([first, second]))
    assert_close(loss.total, both / 4)
    assert loss.count == 5


def test_two_equal_readings_agree():
    logits = torch.randn(4, 9)
    assert float(agreement(logits.repeat(2, 1)).total) == 0
