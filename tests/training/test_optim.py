import numpy as np
import pytest
import torch
from torch.optim import Adafactor, AdamW, Muon

from clearhead.errors import BadInput
from clearhead.training.optim import BatchedMuon, Lamb, make_optimisers, set_learning_rate
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
    for optimiser in ("adamw", "muon", "lamb", "adafactor"):
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


def by_algorithm_2(weight, gradients, *, rate, betas, eps, decay, adapts):
    """The steps of LAMB as You et al. 2019 write them down, in double precision."""
    moment = square = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, start=1):
        moment = betas[0] * moment + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        change = moment / (1 - betas[0] ** step) / (np.sqrt(square / (1 - betas[1] ** step)) + eps) + decay * weight
        lengths = np.linalg.norm(weight), np.linalg.norm(change)
        ratio = lengths[0] / lengths[1] if adapts and min(lengths) > 0 else 1.0
        weight = weight - rate * ratio * change
    return weight


@pytest.mark.parametrize("shape", [(7, 5), (5,)])
def test_lamb_is_its_papers_algorithm(shape):
    draw = np.random.default_rng(0)
    start, gradients = draw.normal(size=shape), draw.normal(size=(6, *shape))
    weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
    adapts = len(shape) > 1
    group = {"params": [weight], "weight_decay": 0.1, "adapts": adapts}
    ours = Lamb([group], 0.02, betas=(0.9, 0.98), eps=1e-6)
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        ours.step()
    expected = by_algorithm_2(start, gradients, rate=0.02, betas=(0.9, 0.98), eps=1e-6, decay=0.1, adapts=adapts)
    np.testing.assert_allclose(weight.detach().numpy(), expected, atol=1e-6)


def test_lamb_moves_weights_that_are_all_zero():
    weight = torch.nn.Parameter(torch.zeros(3, 2))
    weight.grad = torch.ones(3, 2)
    Lamb([{"params": [weight]}], 0.5, betas=(0.9, 0.999), eps=1e-6).step()
    torch.testing.assert_close(weight.detach(), torch.full((3, 2), -0.5))


def test_lamb_takes_biases_and_norms_as_adamw_does():
    net = network()
    found = groups_by_name(net, make_optimisers(net, settings(optimiser="lamb", weight_decay=0.1)))
    for name, (kind, group) in found.items():
        assert kind is Lamb
        assert (group["adapts"], group["weight_decay"]) == (
            (False, 0.0) if "bias" in name or ".norm" in name else (True, 0.1)
        )


def test_eps_is_that_of_the_settings_or_of_the_optimiser():
    net = network()
    for optimiser, eps, expected in (("adamw", None, 1e-8), ("adamw", 1e-6, 1e-6), ("lamb", None, 1e-6)):
        (made,) = make_optimisers(net, settings(optimiser=optimiser, eps=eps))
        assert made.param_groups[0]["eps"] == expected


def test_adafactor_is_torchs_with_its_published_constants():
    (made,) = make_optimisers(network(), settings(optimiser="adafactor"))
    group = made.param_groups[0]
    assert isinstance(made, Adafactor)
    assert (group["beta2_decay"], group["eps"], group["d"]) == (-0.8, (None, 1e-3), 1.0)
