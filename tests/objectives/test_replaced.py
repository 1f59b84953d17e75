"""ELECTRA: draws follow the generator's softmax, and every label says exactly whether the token is another one."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.objectives.language import corrupt, replaced_tokens, sample_tokens

torch.set_num_threads(1)
MASK = 4


def test_draws_follow_the_softmax():
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    logits = chances.log().expand(20_000, 5)
    drawn = sample_tokens(logits, torch.Generator().manual_seed(0))
    assert_close(drawn.bincount(minlength=5) / 20_000, chances, atol=0.012, rtol=0)
    assert not (drawn == 4).any()


def test_draws_are_repeatable_and_carry_no_gradient():
    logits = torch.randn(50, 9, requires_grad=True)
    first, second = (sample_tokens(logits, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
    assert not first.requires_grad


def test_draws_do_not_depend_on_how_a_batch_is_cut():
    logits = torch.randn(50, 9)
    whole, parts = torch.Generator().manual_seed(7), torch.Generator().manual_seed(7)
    halves = torch.cat([sample_tokens(part, parts) for part in logits.split([13, 37])])
    assert torch.equal(sample_tokens(logits, whole), halves)


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
