"""A trace's weights are the attentions of transformers, for every family, on tiny random weights."""

import pytest
import torch
import transformers
from torch.testing import assert_close

from clearhead.hub.checkpoint import read_folder
from clearhead.hub.hf import NAMES
from clearhead.inside.trace import trace_ids
from generators import GPT, their_decoder
from references import MODELS, randomised, save_theirs, theirs


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_the_attentions_of_transformers(model, tmp_path):
    reference = theirs(model, next(iter(NAMES[MODELS[model][0]].architectures)))
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    reference.set_attn_implementation("eager")  # the only one that gives its weights out
    ids = torch.randint(5, 64, (17,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = reference(ids[None], output_attentions=True).attentions
    layers = trace_ids(encoder, ids).layers
    assert len(layers) == len(expected)
    for layer, wanted in zip(layers, expected, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)


def test_a_decoder_sees_nothing_of_what_comes_later(tmp_path):
    reference = randomised(transformers.GPT2Model(transformers.GPT2Config(**GPT)), 0).eval()
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    reference.set_attn_implementation("eager")
    ids = torch.randint(5, 64, (17,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = reference(ids[None], output_attentions=True).attentions
    for layer, wanted in zip(trace_ids(encoder, ids).layers, expected, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)


def test_a_translator_shows_the_attentions_of_its_encoder(tmp_path):
    reference = their_decoder("marian")
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    reference.set_attn_implementation("eager")
    ids = torch.randint(5, 64, (17,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        read = reference.get_encoder()(ids[None], output_attentions=True)
    found = trace_ids(encoder, ids)
    assert_close(found.output, read.last_hidden_state[0], atol=1e-5, rtol=1e-5)
    for layer, wanted in zip(found.layers, read.attentions, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)
