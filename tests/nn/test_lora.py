import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.errors import BadConfig, NotFound
from clearhead.models.bert import PRESETS, Bert
from clearhead.nn.lora import LoRA, add_lora, remove_lora


@pytest.fixture
def bert() -> Bert:
    torch.manual_seed(0)
    return Bert(PRESETS["tiny"]).eval()


def train_a_little(adapters: list[LoRA]) -> None:
    for adapter in adapters:
        nn.init.normal_(adapter.up, std=0.3)


def test_starts_as_the_model_it_wraps_and_leaves_it_as_it_was(bert):
    ids = torch.randint(1000, (2, 9))
    before = bert(ids)
    adapters = add_lora(bert, ["qkv", "down"], rank=4)
    assert len(adapters) == 2 * 2
    assert torch.equal(bert(ids), before)
    train_a_little(adapters)
    assert not torch.allclose(bert(ids), before)
    remove_lora(bert)
    assert torch.equal(bert(ids), before)


def test_merge_keeps_the_numbers(bert):
    ids = torch.randint(1000, (2, 9))
    adapters = add_lora(bert, ["qkv", "output", "up", "down"], rank=3, alpha=6)
    train_a_little(adapters)
    separate = bert(ids)
    for _ in range(2):  # merging twice must not add twice
        for adapter in adapters:
            adapter.merge()
    assert_close(bert(ids), separate, atol=1e-4, rtol=1e-4)
    remove_lora(bert)
    assert_close(bert(ids), separate, atol=1e-4, rtol=1e-4)


def test_only_the_adapters_learn(bert):
    adapters = add_lora(bert, ["qkv"], rank=2)
    learning = {name.rsplit(".", 1)[-1] for name, p in bert.named_parameters() if p.requires_grad}
    assert learning == {"up", "down"}
    train_a_little(adapters)
    bert(torch.randint(1000, (1, 5))).sum().backward()
    assert all(a.up.grad is not None and a.down.grad is not None and a.base.weight.grad is None for a in adapters)


def test_bad_ranks_and_names_are_refused(bert):
    with pytest.raises(BadConfig, match="rank must be at least 1, got 0"):
        LoRA(nn.Linear(2, 2), 0)
    with pytest.raises(
        NotFound, match=r"no Linear is named \['query'\]; the module has \['down', 'output', 'qkv', 'up'\]"
    ):
        add_lora(bert, ["query"], rank=2)
