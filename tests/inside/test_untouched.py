"""A view only looks: afterwards the model computes what it computed before, in every family."""

import pytest
import torch

from clearhead import inside
from clearhead.inside.trace import trace
from inside.models import small

TEXT = "the animal was tired"
OTHER = "it was the animal"
VIEWS = {
    "model": inside.whole_model,
    "block": inside.one_block,
    "attention": lambda model, text: trace(model, text).heads(),
    "qkv": lambda model, text: trace(model, text).step(1, 0, 0),
    "input": inside.summed_input,
    "positions": lambda model, text: inside.position_tables(model, length=8, width=8, text=text),
    "pretraining": inside.pretraining,
    "heads": inside.heads_on_top,
    "layers": inside.through_layers,
    "senses": lambda model, text: inside.senses_of(model, "animal", [text, OTHER]),
    "difference": lambda model, text: inside.difference(model, model, text, other=OTHER),
    "why": lambda model, text: inside.why(model, f"{text} [MASK]", use="fill"),
}


def told(model):
    """Every number that a model computes with, and what it says."""
    numbers = [*model.network.named_parameters(), *model.network.named_buffers()]
    state = {name: value.detach().clone() for name, value in numbers}
    return state, trace(model, TEXT).layers[-1].hidden.clone()


@pytest.mark.parametrize("family", ["bert", "modernbert", "albert"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_leaves_the_model_as_it_was(family, view):
    classes = ("classes", 2, 4, ("no", "yes"))
    model = small.__wrapped__(family, *(classes if view == "heads" else ()))
    before, said = told(model)
    VIEWS[view](model, TEXT)
    after, again = told(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(said, again)
    assert not any(part._forward_hooks for part in model.network.modules())
