"""Agreement of two readings: the paper's loss, halved, and nothing where both say the same."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.objectives.language import agreement


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
