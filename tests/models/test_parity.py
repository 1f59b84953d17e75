"""Every family and head gives the numbers of transformers, on tiny random weights, in both layouts."""

import pytest
import torch
from torch.testing import assert_close
from transformers import ModernBertConfig, ModernBertModel

from clearhead.hub.checkpoint import read_folder
from clearhead.hub.config import NAMES
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Packed, Padded
from references import (
    EVERY_ARCHITECTURE,
    MODELS,
    PER_TOKEN,
    batch_for,
    our_answers,
    randomised,
    save_theirs,
    their_answers,
    theirs,
)


@pytest.mark.parametrize(("model", "architecture"), EVERY_ARCHITECTURE)
def test_same_numbers_as_transformers(model, architecture, tmp_path):
    reference, batch = theirs(model, architecture), batch_for(model)
    network = read_folder(save_theirs(reference, tmp_path)).network
    expected = their_answers(reference, model, architecture, batch)
    assert set(network.heads) - {"pooled"} == expected.keys() - {"pooled", "hidden"}
    for packed in (True, False):
        got = our_answers(network, model, batch, packed=packed)
        for name, logits in expected.items():
            wanted = logits[batch.keep] if name in PER_TOKEN else logits
            assert wanted.std() > 0.05  # not all alike, which would show nothing
            assert_close(got[name], wanted, atol=1e-5, rtol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("model", MODELS)
def test_every_layer_is_the_same(model, tmp_path):
    bare = next(iter(NAMES[MODELS[model][0]].architectures))
    reference, batch = theirs(model, bare), batch_for(model)
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    with torch.no_grad():
        expected = reference(batch.ids, batch.keep.long(), output_hidden_states=True).hidden_states
        got = hidden_states(encoder, batch.ids, Padded.of(batch.keep))
    assert len(got) == len(expected) == len(encoder.blocks) + 1
    for ours, wanted in zip(got, expected, strict=True):
        assert_close(ours[batch.keep], wanted[batch.keep], atol=1e-5, rtol=1e-5)


def test_rotary_positions_far_out(tmp_path):
    config = ModernBertConfig(
        vocab_size=64, hidden_size=32, num_attention_heads=2, intermediate_size=48, num_hidden_layers=3, pad_token_id=3
    )
    reference = randomised(ModernBertModel(config), seed=0).eval()
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    ids = torch.randint(5, 64, (1, 2000), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        got = encoder(ids[0], Packed.of([2000]))
        assert_close(got, reference(ids).last_hidden_state[0], atol=1e-5, rtol=1e-5)
