"""Features of a frozen encoder: the layers that are named, as one vector, and heads that read it."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.models.bert import Bert, BertConfig
from clearhead.nn.features import LayerFeatures, RecurrentPooler, RecurrentTokenHead, ScalarMix
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Packed


def encoder():
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
    return Bert(BertConfig(vocab_size=30, max_position_embeddings=16, **sizes)).eval()


def test_a_mix_is_a_scaled_weighted_sum():
    mix, states = ScalarMix(3), torch.randn(4, 3, 5)
    assert_close(mix(states), states.mean(1))
    with torch.no_grad():
        mix.shares.copy_(torch.tensor([0.0, 1.0, 2.0]))
        mix.scale.fill_(2.0)
    shares = torch.tensor([0.0, 1.0, 2.0]).softmax(0)
    assert_close(mix(states), 2 * sum(share * states[:, k] for k, share in enumerate(shares)))


@torch.no_grad()
def test_layers_are_joined_as_said():
    body, ids, layout = encoder(), torch.arange(7), Packed.of([3, 4])
    states = hidden_states(body, ids, layout)
    wanted = {
        "mean": (states[1] + states[-1]) / 2,
        "sum": states[1] + states[-1],
        "concat": torch.cat([states[1], states[-1]], -1),
    }
    for combine, expected in wanted.items():
        features = LayerFeatures([1, -1], combine, 8)
        assert_close(features(features.choose(body, ids, layout, None)), expected)
        assert features.width == expected.shape[-1]
    mixed = LayerFeatures([1, -1], "weighted", 8)
    chosen = mixed.choose(body, ids, layout, None)
    assert_close(chosen, torch.stack([states[1], states[-1]], 1))
    assert_close(mixed(chosen), wanted["mean"])  # equal shares at first


@pytest.mark.parametrize("combine", ["sum", "concat", "weighted"])
def test_features_are_standardised(combine):
    features, rows = LayerFeatures([0, 1], combine, 4), torch.randn(500, *([2] * (combine == "weighted")), 4) * 3 + 5
    rows = torch.cat([rows, rows], -1) if combine == "concat" else rows
    features.standardise(rows)
    standard = (rows - features.mean) / features.deviation
    assert_close(standard.mean(0), torch.zeros_like(features.mean), atol=1e-4, rtol=0)
    assert_close(standard.std(0, correction=0), torch.ones_like(features.mean), atol=1e-4, rtol=0)
    with torch.no_grad():
        assert_close(features(rows), standard.mean(1) if combine == "weighted" else standard)


def test_a_pooler_reads_each_sequence_alone():
    torch.manual_seed(0)
    pooler, x = RecurrentPooler(6, 4).eval(), torch.randn(9, 6)
    together = pooler(x, Packed.of([2, 4, 3]))
    alone = torch.cat([pooler(part, Packed.of([len(part)])) for part in x.split([2, 4, 3])])
    assert_close(together, alone)
    assert RecurrentTokenHead(6, 4, 3).lstm.inner == pooler.lstm.inner == 4


def test_what_is_no_choice_of_layers_is_refused():
    with pytest.raises(BadInput, match="combine='max' is not known; choose mean, sum, concat, weighted"):
        LayerFeatures([0], "max", 8)
    with pytest.raises(BadInput, match="no layers are chosen; name some, such as -4"):
        LayerFeatures([], "sum", 8)
    with pytest.raises(BadInput, match="layer 9 is not there; this model has layers 0 to 3"):
        LayerFeatures([9], "sum", 8).choose(encoder(), torch.arange(3), Packed.of([3]), None)
