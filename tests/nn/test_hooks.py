"""`nn.hooks`: calls in order, hidden states of every layer in either layout."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.nn.hooks import evaluating, hidden_states, record
from clearhead.nn.layout import Packed, Padded
from inside.encoders import KINDS, VOCABULARY, encoder


def test_calls_come_in_the_order_in_which_they_return():
    inner, outer = nn.Linear(2, 2), nn.Identity()
    both = nn.Sequential(inner, outer)
    x = torch.ones(1, 2)
    with record(both, inner, inner, outer) as calls:
        y = both(x)
    assert [call.module for call in calls] == [inner, outer, both]
    assert calls[0].inputs == (x,)
    assert calls[2].output is y
    both(x)
    assert len(calls) == 3


def test_hooks_go_away_after_an_error():
    part = nn.Linear(2, 2)
    with pytest.raises(RuntimeError), record(part):
        part(torch.ones(3))
    assert not part._forward_hooks


def test_modes_come_back_part_by_part():
    module = nn.Sequential(nn.Dropout(), nn.Dropout().eval())

    def fail():
        assert not any(part.training for part in module.modules())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), evaluating(module):
        fail()
    assert [part.training for part in module.modules()] == [True, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_in_either_layout(kind):
    module = encoder(kind)
    generator = torch.Generator().manual_seed(2)
    texts = [torch.randint(0, VOCABULARY, (n,), generator=generator) for n in (5, 9)]
    packed = Packed.of([5, 9])
    ids, padded = packed.pad(torch.cat(texts))
    with torch.no_grad():
        states = hidden_states(module, torch.cat(texts), packed)
        rectangle = hidden_states(module, ids, padded)
        assert_close(states[-1], module(torch.cat(texts), packed))
    assert len(states) == len(module.blocks) + 1
    for state, other in zip(states, rectangle, strict=True):
        assert isinstance(padded, Padded)
        assert_close(state, padded.pack(other)[0], atol=1e-5, rtol=1e-5)
