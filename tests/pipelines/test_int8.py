"""A model in 8 bits: allowed where the user's own sample hardly changes, refused in one sentence elsewhere."""

import numpy as np
import pytest
import torch

from clearhead import Model, ModernBertConfig
from clearhead.errors import BadInput
from clearhead.nn.lora import add_lora
from clearhead.nn.quantisation import CalibratedFeedForward, CalibratedLinear, QuantisedLinear, available, is_int8
from clearhead.pipelines.int8 import in_int8
from pipelines.peers import LONG, SENTENCES, TAGS, peers

pytestmark = pytest.mark.skipif(not available(), reason="this processor has no VNNI")

PAIRS = [("Who lived in London?", LONG), ("When?", LONG)]
CASES = [
    ("BertForMaskedLM", (), ["Wear a [MASK]!", "the [MASK]"], "words for masks"),
    ("BertForMaskedLM", (), SENTENCES, "vectors"),
    ("BertForSequenceClassification", ("no", "yes"), SENTENCES, "labels"),
    ("BertForTokenClassification", TAGS, SENTENCES, "tags"),
    ("BertForQuestionAnswering", (), PAIRS, "answers"),
    ("BertForMultipleChoice", (), [(SENTENCES[0], ["a mask", "the river"])], "choices"),
]


@pytest.mark.parametrize(("name", "labels", "sample", "compared"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
def test_every_use_has_its_measure(name, labels, sample, compared):
    model = peers(name, labels).ours if labels else peers(name).ours
    small = model.quantise(sample, loss=1.0)
    assert is_int8(small.network)
    assert not is_int8(model.network)
    with pytest.raises(BadInput, match=rf"int8 changes the {compared} of {len(sample)} samples by .* keep the model"):
        model.quantise(sample, loss=-1.0)


def test_vectors_stay_near_and_the_tables_are_shared():
    model = peers("BertForMaskedLM").ours
    small = model.quantise(SENTENCES, loss=0.01)
    near = (model.embed(SENTENCES, normalise=True) * small.embed(SENTENCES, normalise=True)).sum(1)
    assert np.all(near > 0.99)
    assert next(small.encoder.embeddings.parameters()) is next(model.encoder.embeddings.parameters())


def test_an_adapter_is_rounded_with_its_matrix():
    model = peers("BertForMaskedLM", seed=5).ours
    before = model.embed(SENTENCES)
    for adapter in add_lora(model.encoder, ["qkv"], rank=2):
        torch.nn.init.normal_(adapter.up)
    corrected = model.embed(SENTENCES, normalise=True)
    assert not np.allclose(before, corrected, atol=1e-2)
    assert np.all((model.quantise(SENTENCES, loss=0.02).embed(SENTENCES, normalise=True) * corrected).sum(1) > 0.98)


def test_with_enough_samples_the_steps_are_fixed_and_judged_on_texts_not_seen():
    model = peers("BertForMaskedLM").ours
    many = [f"{first} {second}" for first in SENTENCES for second in SENTENCES] * 5
    small = model.quantise(many, loss=0.01)
    kinds = {type(part) for part in small.encoder.modules()}
    assert {CalibratedLinear, CalibratedFeedForward} <= kinds
    assert QuantisedLinear not in kinds
    assert QuantisedLinear in {type(part) for part in model.quantise(SENTENCES, loss=0.01).encoder.modules()}
    alone = np.stack([small.embed(text) for text in SENTENCES])
    np.testing.assert_allclose(small.embed(SENTENCES), alone, atol=1e-5)


def test_the_first_gated_feedforward_stays_as_it_is():
    config = ModernBertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    first, second = in_int8(Model.create(config).network).encoder.blocks
    assert not is_int8(first.feedforward)
    assert is_int8(first.attention)
    assert is_int8(second.feedforward)


def test_what_is_refused(tmp_path):
    model = peers("BertForMaskedLM").ours
    with pytest.raises(BadInput, match="the sample is empty"):
        model.quantise([])
    small = model.quantise(SENTENCES, loss=1.0)
    with pytest.raises(BadInput, match="an int8 model is for use alone; save the fp32 one"):
        small.save(tmp_path / "folder")
    with pytest.raises(BadInput, match="this model is in int8 already"):
        in_int8(small.network)
