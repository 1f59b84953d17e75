"""What a decoder looks at: the formulas of the slides, and weights that add up to 1."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.nn.alignment import AdditiveScore, AttentionContext, DotScore, FixedContext, GeneralScore
from clearhead.nn.hooks import record
from clearhead.nn.layout import Packed

LAYOUT = Packed.of([3, 1, 5])
SCORES = {"dot": DotScore, "general": lambda: GeneralScore(4), "additive": lambda: AdditiveScore(4)}


@pytest.fixture(params=SCORES)
def context(request):
    torch.manual_seed(0)
    return AttentionContext(SCORES[request.param]())


def score(part: torch.nn.Module, s: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """One score of one state and one hidden state, as the slides write it."""
    if isinstance(part, GeneralScore):
        return s @ (part.map.weight @ h)
    if isinstance(part, DotScore):
        return s @ h
    inner = part.of_state.weight @ s + part.of_hidden.weight @ h + part.of_hidden.bias
    return part.sum.weight[0] @ torch.tanh(inner)


def test_a_context_is_a_weighted_sum(context):
    hidden, states = torch.randn(9, 4), torch.randn(3, 2, 4)
    found = context(states, context.memory(hidden, LAYOUT, torch.zeros(3, 4)))
    for b, own in enumerate(LAYOUT.split(hidden)):
        for t in range(2):
            weights = torch.stack([score(context.score, states[b, t], h) for h in own]).softmax(0)
            assert_close(found[b, t], sum(w * h for w, h in zip(weights, own, strict=True)), atol=1e-6, rtol=1e-5)


def test_weights_add_up_to_one_on_real_words(context):
    memory = context.memory(torch.randn(9, 4), LAYOUT, torch.zeros(3, 4))
    with record(context.align) as calls:
        context(torch.randn(3, 2, 4), memory)
    (weights,) = [call.output for call in calls]
    assert weights.shape == (3, 2, 5)
    assert_close(weights.sum(-1), torch.ones(3, 2))
    assert not weights[~memory.keep.unsqueeze(1).expand_as(weights)].any()


def test_memory_is_selected_by_rows(context):
    memory = context.memory(torch.randn(9, 4), LAYOUT, torch.zeros(3, 4))
    states = torch.randn(3, 1, 4)
    rows = torch.tensor([2, 2, 0])
    assert_close(context(states[rows], memory.select(rows)), context(states, memory)[rows])


def test_a_fixed_context_is_the_same_for_every_word():
    context, last = FixedContext(), torch.randn(3, 4)
    found = context(torch.randn(3, 2, 4), context.memory(torch.randn(9, 4), LAYOUT, last))
    assert torch.equal(found, last.unsqueeze(1).expand(3, 2, 4))
