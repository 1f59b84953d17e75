"""Every decoder gives the logits of transformers on tiny random weights, in both layouts, and saves what it loads."""

import json
from dataclasses import asdict, replace
from importlib import import_module

import pytest
import torch
import transformers
from torch.testing import assert_close

from clearhead.decoding.config import Controls
from clearhead.decoding.decoder import as_decoder
from clearhead.decoding.generate import greedy
from clearhead.errors import BadConfig, InputTooLong, WrongTask
from clearhead.hub.checkpoint import build_network, read_folder, write_folder
from clearhead.hub.config import NAMES, Description
from clearhead.models import GENERATORS
from clearhead.models.bart import BartConfig
from clearhead.models.gpt import Gpt2Config
from clearhead.models.m2m100 import M2M100Config
from clearhead.models.t5 import T5Config
from clearhead.models.transformer import TransformerConfig
from clearhead.nn.layout import Packed
from generators import (
    BART,
    DECODERS,
    PROMPTS,
    T5,
    WRITERS,
    laid_out,
    our_decoder,
    our_logits,
    their_decoder,
    their_logits,
)
from references import randomised, save_theirs


@pytest.mark.parametrize("model", DECODERS)
def test_same_logits_as_transformers(model, tmp_path):
    reference = their_decoder(model)
    network = read_folder(save_theirs(reference, tmp_path)).network
    expected = their_logits(reference, PROMPTS)
    assert expected.std() > 0.05
    for packed in (True, False):
        assert_close(our_logits(network, PROMPTS, packed=packed), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", DECODERS)
def test_transformers_reads_what_we_write(model, tmp_path):
    checkpoint = our_decoder(model)
    write_folder(checkpoint, tmp_path / "once")
    read = getattr(transformers, WRITERS[DECODERS[model][0]]).from_pretrained
    reference, gaps = read(tmp_path / "once", output_loading_info=True, local_files_only=True)
    assert not any(gaps.values()), gaps
    got = our_logits(checkpoint.network, PROMPTS, packed=True)
    assert_close(got, their_logits(reference.eval(), PROMPTS), atol=1e-5, rtol=1e-5)
    again = read_folder(tmp_path / "once")
    assert again.description.config == checkpoint.description.config
    write_folder(again, tmp_path / "twice")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


@pytest.mark.parametrize("bare", ["BartModel", "GPT2Model", "M2M100Model", "MBartModel", "MarianModel", "T5Model"])
def test_a_body_without_its_head(bare, tmp_path):
    family = next(family for family in GENERATORS if bare in NAMES[family].architectures)
    config = transformers.AutoConfig.for_model(family, **{"decoder_start_token_id": 0, **DECODERS[family][1]})
    save_theirs(randomised(getattr(transformers, bare)(config), 0), tmp_path / "theirs")
    checkpoint = read_folder(tmp_path / "theirs")
    assert not checkpoint.network.heads
    write_folder(checkpoint, tmp_path / "ours")
    read = getattr(transformers, bare).from_pretrained
    _, gaps = read(tmp_path / "ours", output_loading_info=True, local_files_only=True)
    gaps["missing_keys"] = {name for name in gaps["missing_keys"] if "embed_positions" not in name}  # sines, made anew
    assert not any(gaps.values()), gaps


@pytest.mark.parametrize("architecture", ["GPT2ForSequenceClassification", "GPT2ForTokenClassification"])
def test_gpt_with_another_head(architecture, tmp_path):
    config = transformers.GPT2Config(**DECODERS["gpt2"][1], num_labels=3)
    reference = randomised(getattr(transformers, architecture)(config), 0).eval()
    checkpoint = read_folder(save_theirs(reference, tmp_path))
    (head,) = checkpoint.network.heads
    padded = laid_out(PROMPTS, packed=False)
    with torch.no_grad():
        expected = reference(padded.ids, attention_mask=padded.layout.keep.long()).logits
        got = checkpoint.network(head, *laid_out(PROMPTS, packed=True))
    assert_close(got, expected[padded.layout.keep] if head == "tags" else expected, atol=1e-5, rtol=1e-5)
    write_folder(checkpoint, tmp_path / "ours")
    _, gaps = getattr(transformers, architecture).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(gaps.values()), gaps


ENDED = [[2, *prompt, 1] for prompt in PROMPTS]  # BART reads classes from the end token


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_bart_with_classes(labels, tmp_path):
    config = transformers.BartConfig(**BART, num_labels=labels)
    reference = randomised(transformers.BartForSequenceClassification(config), 0).eval()
    checkpoint = read_folder(save_theirs(reference, tmp_path / "theirs"))
    for packed in (True, False):
        given = laid_out(ENDED, packed=packed)
        got = checkpoint.network("classes", *given)
        assert_close(got, _their_classes(reference, ENDED), atol=1e-5, rtol=1e-5)
    # without names of labels, transformers takes BART to have three
    nameless = replace(checkpoint, description=replace(checkpoint.description, labels=None))
    write_folder(nameless, tmp_path / "ours")
    read = transformers.BartForSequenceClassification.from_pretrained
    again, gaps = read(tmp_path / "ours", output_loading_info=True, local_files_only=True)
    assert not any(gaps.values()), gaps
    assert_close(_their_classes(again.eval(), ENDED), got, atol=1e-5, rtol=1e-5)


def _their_classes(network, rows):
    """One at a time, because transformers wants the padding's id where we have a mask."""
    with torch.no_grad():
        return torch.cat([network(torch.tensor([row])).logits for row in rows])


def test_bart_with_spans(tmp_path):
    reference = randomised(transformers.BartForQuestionAnswering(transformers.BartConfig(**BART)), 0).eval()
    checkpoint = read_folder(save_theirs(reference, tmp_path / "theirs"))
    padded = laid_out(ENDED, packed=False)
    with torch.no_grad():
        found = reference(padded.ids, attention_mask=padded.layout.keep.long())
    expected = torch.stack([found.start_logits, found.end_logits], -1)[padded.layout.keep]
    assert_close(checkpoint.network("span", *laid_out(ENDED, packed=True)), expected, atol=1e-5, rtol=1e-5)
    write_folder(checkpoint, tmp_path / "ours")
    read = transformers.BartForQuestionAnswering.from_pretrained
    _, gaps = read(tmp_path / "ours", output_loading_info=True, local_files_only=True)
    assert not any(gaps.values()), gaps


def test_a_bart_whose_file_has_no_bias(tmp_path):
    # transformers takes it for zeros: its bare models have none
    reference = randomised(transformers.BartModel(transformers.BartConfig(**BART)), 0)
    save_theirs(reference, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["BartForConditionalGeneration"]}))
    network = read_folder(tmp_path).network
    assert not network.heads["causal_lm"].bias.any()
    theirs = transformers.BartForConditionalGeneration.from_pretrained(tmp_path).eval()
    assert_close(our_logits(network, PROMPTS, packed=True), their_logits(theirs, PROMPTS), atol=1e-5, rtol=1e-5)


def test_a_gated_t5_that_shares_its_matrix_as_transformers_5_writes_it(tmp_path):
    # it calls every T5's matrix shared, and scale_decoder_outputs says which version it is
    config = transformers.T5Config(
        **T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0
    )
    reference = randomised(transformers.T5ForConditionalGeneration(config), 0).eval()
    save_theirs(reference, tmp_path / "theirs")
    checkpoint = read_folder(tmp_path / "theirs")
    assert checkpoint.description.config.tie_word_embeddings
    assert not checkpoint.description.config.scaled
    expected = their_logits(reference, PROMPTS)
    assert_close(our_logits(checkpoint.network, PROMPTS, packed=True), expected, atol=1e-5, rtol=1e-5)
    write_folder(checkpoint, tmp_path / "ours")
    again, gaps = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(gaps.values()), gaps
    assert_close(their_logits(again.eval(), PROMPTS), expected, atol=1e-5, rtol=1e-5)


def test_a_t5_with_a_matrix_of_its_own_that_config_json_calls_shared(tmp_path):
    reference = their_decoder("t5-v1.1")
    save_theirs(reference, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    checkpoint = read_folder(tmp_path)
    assert not checkpoint.description.config.tie_word_embeddings
    got = our_logits(checkpoint.network, PROMPTS, packed=True)
    assert_close(got, their_logits(reference, PROMPTS), atol=1e-5, rtol=1e-5)


def test_a_head_that_a_family_does_not_have():
    with pytest.raises(WrongTask, match="there is no head 'span' for gpt2; there are causal_lm, classes, tags"):
        build_network(Description(family="gpt2", config=Gpt2Config()), {"span": 2}, device="meta")


@pytest.mark.parametrize("family", GENERATORS)
def test_defaults_are_those_of_transformers(family):
    # transformers does not write a value that equals its default, so ours have to be the same
    config, theirs = GENERATORS[family].config(), transformers.AutoConfig.for_model(family)
    follow = ("num_decoder_layers", "scale_decoder_outputs")  # from other values
    ours = {name: value for name, value in asdict(config).items() if name not in follow}
    assert ours == {name: getattr(theirs, name) for name in ours}


@pytest.mark.parametrize(
    ("family", "preset"),
    [(family, name) for family in GENERATORS for name in import_module(GENERATORS[family].config.__module__).PRESETS],
)
def test_presets_are_as_large_as_theirs(family, preset):
    config = import_module(GENERATORS[family].config.__module__).PRESETS[preset]
    description = Description(family=family, config=config)
    heads = {"causal_lm": config.vocab_size} if family != "t5" else {}
    network = build_network(description, heads, device="meta")
    settings = transformers.AutoConfig.for_model(family, **NAMES[family].write_config(asdict(config)))
    with torch.device("meta"):
        theirs = transformers.AutoModel.from_config(settings)
    # the sines are parameters there; the bias of the logits is no parameter there
    fixed = 2 * config.max_position_embeddings * config.d_model if family == "marian" else 0
    bias = config.vocab_size if family in ("bart", "marian", "mbart") else 0
    assert count(network) - bias == count(theirs) - fixed


def count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(("preset", "parameters"), [("base", 63e6), ("big", 214e6)])
def test_the_transformer_is_as_large_as_published(preset, parameters):
    config = import_module("clearhead.models.transformer").PRESETS[preset]
    network = build_network(Description(family="marian", config=config), {"causal_lm": 37000}, device="meta")
    assert abs(count(network) / parameters - 1) < 0.02


@pytest.mark.parametrize("model", DECODERS)
def test_a_gradient_reaches_every_parameter(model):
    network = our_decoder(model).network.train()
    source = laid_out(PROMPTS, packed=True)
    network("causal_lm", source.ids, source.layout, source).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name.endswith(("qkv.bias", "key_value.bias")), name


@pytest.mark.parametrize("model", ["bart", "gpt2", "m2m_100", "marian", "mbart", "t5"])
def test_in_half_precision(model):
    network = our_decoder(model).network
    source = laid_out(PROMPTS, packed=True)
    with torch.no_grad():
        wanted = network("causal_lm", source.ids, source.layout, source)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = network("causal_lm", source.ids, source.layout, source)
        half = network.bfloat16()("causal_lm", source.ids, source.layout, source)
    assert_close(mixed.float(), wanted, atol=0.3, rtol=0.1)
    assert_close(half.float(), wanted, atol=0.3, rtol=0.1)
    assert len(greedy(as_decoder(network), PROMPTS, Controls(max_new_tokens=3))) == len(PROMPTS)


@pytest.mark.parametrize("model", DECODERS)
def test_what_comes_later_changes_nothing(model):
    network = our_decoder(model).network
    source = laid_out([[9, 8, 7]], packed=True)
    first, second = torch.tensor([5, 6, 7, 8, 9, 10]), torch.tensor([5, 6, 7, 20, 21, 22])
    with torch.no_grad():
        one, other = (network("causal_lm", ids, Packed.of([6]), source) for ids in (first, second))
    assert_close(one[:3], other[:3])
    assert not torch.allclose(one[3:], other[3:])


@pytest.mark.parametrize("family", ["bart", "gpt2", "m2m_100", "marian"])
def test_as_long_as_the_positions_reach(family):
    network = our_decoder(family).network
    source = laid_out([[7] * 61], packed=True)
    with pytest.raises(InputTooLong, match="Input has 61 tokens, the model has 60 positions"):
        network("causal_lm", source.ids, source.layout, source)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (Gpt2Config, {"n_embd": 30}, "n_embd 30 must be a multiple of n_head 12"),
        (Gpt2Config, {"attn_pdrop": 1.0}, "attn_pdrop must be from 0 up to but not including 1, got 1.0"),
        (Gpt2Config, {"pad_token_id": 50257}, "pad_token_id 50257 must be less than vocab_size 50257"),
        (TransformerConfig, {"d_model": 33}, "d_model 33 must be a multiple of encoder_attention_heads 16"),
        (TransformerConfig, {"activation_function": "sharp"}, "unknown activation 'sharp'"),
        (BartConfig, {"decoder_start_token_id": 60000}, "decoder_start_token_id 60000 must be less than vocab_size"),
        (M2M100Config, {"d_model": 15, "encoder_attention_heads": 5, "decoder_attention_heads": 5}, "must be even"),
        (T5Config, {"feed_forward_proj": "gated-mish"}, "unknown activation 'mish'"),
        (T5Config, {"relative_attention_num_buckets": 2}, "relative_attention_num_buckets must be at least 4, got 2"),
        (T5Config, {"relative_attention_max_distance": 9}, "9 must be more than half of the 32 buckets"),
    ],
)
def test_bad_configurations_are_refused(kind, values, message):
    with pytest.raises(BadConfig) as caught:
        kind(**values)
    assert message in str(caught.value)
