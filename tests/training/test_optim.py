import pytest
import torch
from torch.optim import AdamW, Muon

from clearhead.errors import BadInput
from clearhead.training.optim import BatchedMuon, make_optimisers, set_learning_rate
from training.toy import network, settings


def groups_by_name(net, optimisers):
    names = {weight: name for name, weight in net.named_parameters()}
    found = {}
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            for weight in group["params"]:
                assert names[weight] not in found
                found[names[weight]] = (type(optimiser), group)
    return found


def test_every_parameter_once_and_no_decay_on_biases_and_norms():
    net = network()
    found = groups_by_name(net, make_optimisers(net, settings(weight_decay=0.1)))
    assert found.keys() == {name for name, _ in net.named_parameters()}
    for name, (_, group) in found.items():
        bare = name.endswith("bias") or ".norm" in name
        assert group["weight_decay"] == (0.0 if bare else 0.1), name


def test_muon_takes_the_hidden_matrices():
    net = network()
    found = groups_by_name(net, make_optimisers(net, settings(optimiser="muon")))
    muon = {name for name, (kind, _) in found.items() if kind is BatchedMuon}
    assert muon == {name for name, weight in net.named_parameters() if ".blocks." in name and weight.ndim == 2}
    assert found["encoder.embeddings.token.weight"][0] is AdamW


def test_layers_learn_slower_the_lower_they_are():
    net = network()
    optimisers = make_optimisers(net, settings(layer_decay=0.5))
    set_learning_rate(optimisers, 1.0)
    rates = {name: group["lr"] for name, (_, group) in groups_by_name(net, optimisers).items()}
    assert rates["encoder.embeddings.position.weight"] == 0.125
    assert rates["encoder.blocks.0.feedforward.up.weight"] == 0.25
    assert rates["encoder.blocks.1.norm_2.bias"] == 0.5
    assert rates["heads.next_sentence.classifier.weight"] == 1.0


def test_frozen_parameters_are_left_out():
    net = network()
    net.encoder.requires_grad_(False)
    found = groups_by_name(net, make_optimisers(net, settings()))
    assert not [name for name in found if name.startswith("encoder.")]
    net.requires_grad_(False)
    with pytest.raises(BadInput, match="no parameter to train; unfreeze some"):
        make_optimisers(net, settings())


def test_both_go_downhill():
    for optimiser in ("adamw", "muon"):
        net = network()
        made = make_optimisers(net, settings(optimiser=optimiser))
        set_learning_rate(made, 0.01)
        weight = net.encoder.blocks[0].feedforward.up.weight
        target = torch.zeros_like(weight)
        before = (weight - target).square().sum().item()
        for _ in range(10):
            (weight - target).square().sum().backward()
            for each in made:
                each.step()
                each.zero_grad()
        assert (weight - target).square().sum().item() < before


def test_matrices_done_together_come_out_as_torch_has_them():
    torch.manual_seed(0)
    shapes = [(24, 8), (8, 24), (16, 16), (24, 8), (8, 24)]
    one = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    other = [torch.nn.Parameter(weight.detach().clone()) for weight in one]
    options = {"lr": 0.02, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    ours, theirs = BatchedMuon(one, **options), Muon(other, **options)
    for _ in range(4):
        for a, b in zip(one, other, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        one[2].grad = other[2].grad = None  # a matrix that nobody used
        ours.step()
        theirs.step()
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=0)  # both work in bf16
    assert ours.state_dict()["state"].keys() == theirs.state_dict()["state"].keys()
