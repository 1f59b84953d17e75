"""What all model files have in common: registered, checked, sized as published, trainable to the last parameter."""

from dataclasses import FrozenInstanceError, asdict, fields
from importlib import import_module
from pathlib import Path

import pytest
import torch
import transformers

from clearhead import models
from clearhead.errors import BadConfig, InputTooLong
from clearhead.hub.checkpoint import build_network
from clearhead.hub.config import NAMES, Description
from clearhead.models import ENCODERS
from clearhead.models.albert import Albert, AlbertConfig
from clearhead.models.bert import BertConfig
from clearhead.models.distilbert import DistilBert, DistilBertConfig
from clearhead.models.electra import ElectraConfig
from clearhead.models.modernbert import ModernBertConfig
from clearhead.models.roberta import RobertaConfig
from clearhead.nn.heads import Network
from clearhead.nn.hooks import record
from clearhead.nn.layout import Packed
from clearhead.nn.positions import Rotary, sinusoidal_interleaved
from references import MODELS, batch_for, outputs_of

FILES = sorted(path.stem for path in Path(models.__path__[0]).glob("[!_]*.py"))
PRESETS = [
    pytest.param(name, preset, id=f"{name}-{preset}")
    for name in FILES
    if name in ENCODERS
    for preset in import_module(f"clearhead.models.{name}").PRESETS
]


def tiny(model: str) -> Network:
    """Build a tiny network with every head of its family."""
    family, settings = MODELS[model]
    config = ENCODERS[family].config(**settings)
    outputs = {head: outputs_of(head, config) for head in NAMES[family].heads}
    return build_network(Description(family=family, config=config), outputs)


def test_every_model_file_is_registered():
    known = [family.config for family in models.ALL_FAMILIES.values()] + [
        kind.config for kind in models.RECURRENT_FAMILIES.values()
    ]
    assert {config.__module__.rpartition(".")[2] for config in known} == set(FILES)
    assert models.ALL_FAMILIES.keys() == NAMES.keys()
    assert {family for family, _ in MODELS.values()} == ENCODERS.keys()


@pytest.mark.parametrize("family", ENCODERS)
def test_configurations(family):
    kind = ENCODERS[family].config
    config, theirs = kind(), transformers.AutoConfig.for_model(family)
    assert len(fields(kind)) <= 15
    with pytest.raises(FrozenInstanceError):
        config.vocab_size = 1
    with pytest.raises(TypeError):
        kind(30000)
    # transformers does not write a value that equals its default, so ours have to be the same
    shared = {name: value for name, value in asdict(config).items() if hasattr(theirs, name)}
    if family in ("camembert", "xlm-roberta"):
        del shared["vocab_size"]  # no published vocabulary has the size that is the default there
    assert shared == {name: getattr(theirs, name) for name in shared}
    assert config.num_hidden_layers * config.num_attention_heads * config.hidden_size > 0


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_presets_are_as_large_as_theirs(name, preset):
    config = import_module(f"clearhead.models.{name}").PRESETS[preset]
    pooled = {"pooled": config.hidden_size} if "pooled" in NAMES[name].heads else {}
    network = build_network(Description(family=name, config=config), pooled, device="meta")
    their_config = transformers.AutoConfig.for_model(name, **NAMES[name].write_config(asdict(config)))
    with torch.device("meta"):
        theirs = transformers.AutoModel.from_config(their_config)
    assert count(network) == count(theirs)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("tiny", 4_385_920),
        ("mini", 11_170_560),
        ("small", 28_763_648),
        ("medium", 41_373_184),
        ("base", 109_482_240),
        ("large", 335_141_888),
    ],
)
def test_bert_is_as_large_as_published(preset, parameters):
    config = models.bert.PRESETS[preset]
    network = build_network(Description(family="bert", config=config), {"pooled": config.hidden_size}, device="meta")
    assert count(network) == parameters


def count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (BertConfig, {"hidden_size": 30}, "hidden_size 30 must be a multiple of num_attention_heads 12"),
        (BertConfig, {"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
        (BertConfig, {"pad_token_id": -1}, "pad_token_id must be at least 0, got -1"),
        (BertConfig, {"pad_token_id": 30522}, "pad_token_id 30522 must be less than vocab_size 30522"),
        (BertConfig, {"intermediate_size": 2**40}, "intermediate_size must be at most 16777216, got 1099511627776"),
        (BertConfig, {"hidden_act": "swish!"}, "unknown activation 'swish!'; known: gelu, gelu_new"),
        (BertConfig, {"hidden_dropout_prob": 1.0}, "hidden_dropout_prob must be from 0 up to but not including 1"),
        (BertConfig, {"layer_norm_eps": float("nan")}, "layer_norm_eps must be positive and finite, got nan"),
        (RobertaConfig, {"max_position_embeddings": 2}, "max_position_embeddings 2 leaves no position after pad_token"),
        (DistilBertConfig, {"dim": 100}, "dim 100 must be a multiple of n_heads 12"),
        (DistilBertConfig, {"activation": "none"}, "unknown activation 'none'"),
        (AlbertConfig, {"num_hidden_groups": 13}, "num_hidden_groups 13 must not exceed num_hidden_layers 12"),
        (ElectraConfig, {"embedding_size": 0}, "embedding_size must be at least 1, got 0"),
        (ModernBertConfig, {"classifier_pooling": "max"}, "classifier_pooling must be 'cls' or 'mean', got 'max'"),
        (ModernBertConfig, {"hidden_size": 36}, "must be even for rotary positions, got 3"),
        (ModernBertConfig, {"vocab_size": 100}, "pad_token_id 50283 must be less than vocab_size 100"),
    ],
)
def test_bad_configurations_are_refused(kind, values, message):
    with pytest.raises(BadConfig) as caught:
        kind(**values)
    assert message in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
def test_a_gradient_reaches_every_parameter(model):
    network, batch = tiny(model).train(), batch_for(model)
    rectangle = Packed.of(batch.keep.sum(1).tolist())
    total = sum(
        network(head, batch.ids[batch.keep], rectangle, batch.segments[batch.keep]).square().sum()
        for head in network.heads
    )
    total.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("model", MODELS)
def test_as_long_as_the_positions_reach(model):
    encoder = tiny(model).encoder.eval()
    longest = encoder.max_length
    assert encoder(torch.full((1, longest), 7)).shape == (1, longest, 32)
    with pytest.raises(InputTooLong, match=f"Input has {longest + 1} tokens, the model has {longest} positions"):
        encoder(torch.full((1, longest + 1), 7))


def test_roberta_keeps_rows_for_padding():
    assert tiny("roberta").encoder.max_length == 40 - 2


def test_albert_layers_are_shared_and_seen_each_time():
    albert = Albert(AlbertConfig(**MODELS["albert-groups"][1]))
    first, second = albert.groups
    assert list(albert.blocks) == [first, first, second]
    assert not any(name.startswith("blocks") for name, _ in albert.named_parameters())
    with record(*albert.blocks) as calls:
        albert(torch.full((1, 3), 7))
    assert [call.module for call in calls] == [first, first, second]


def test_sinusoidal_positions_are_a_beginning():
    config = DistilBertConfig(**MODELS["distilbert-sinusoidal"][1])
    assert torch.equal(DistilBert(config).embeddings.position.weight, sinusoidal_interleaved(40, 32))


def test_rotary_tables_are_real_after_meta_and_follow_the_model():
    with torch.device("meta"):
        rotary = Rotary(8, 10000.0, 16)
    assert torch.equal(rotary.cos, Rotary(8, 10000.0, 16).cos)
    assert rotary.to("meta").sin.device.type == "meta"
    assert not rotary.state_dict()
