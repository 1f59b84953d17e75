"""A model in 8 bits: allowed where the user's own sample hardly changes, refused in one sentence elsewhere."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from clearhead import Model, ModernBertConfig, load
from clearhead.decoding.config import GenerationConfig
from clearhead.errors import BadInput
from clearhead.nn.heads import QuantisedNextTokenHead
from clearhead.nn.lora import add_lora
from clearhead.nn.quantisation import CalibratedFeedForward, CalibratedLinear, QuantisedLinear, available, is_int8
from clearhead.pipelines.int8 import _change, _change_of_texts, _probability_of_token, _results, in_int8
from pipelines.peers import LONG, SENTENCES, TAGS, peers
from pipelines.writers import TEXTS, gpt_folder, translator

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


def gated():
    torch.manual_seed(0)
    model = peers("BertForMaskedLM").ours
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = ModernBertConfig(vocab_size=model.config.vocab_size, pad_token_id=0, **sizes)
    made = Model.create(config, model.tokenizer, heads={"classes": 2}, labels=("no", "yes"))
    for block in made.encoder.blocks:
        # some features reach far, as in trained models
        block.norm_2.weight.data[3] *= 30
        block.feedforward.up.weight.data[-5] *= 30
        block.attention.qkv.weight.data[-7] *= 30
    return made


def test_features_that_reach_far_are_smoothed():
    """Nearer to fp32 than without a sample, although the first feed-forward is in int8 too."""
    model = gated()
    wanted = model.embed(SENTENCES, normalise=True)
    small, plain = model.quantise(SENTENCES), Model(replace(model.checkpoint, network=in_int8(model.network)))
    assert is_int8(small.encoder.blocks[0].feedforward)
    near, far = (1 - (one.embed(SENTENCES, normalise=True) * wanted).sum(1).min() for one in (small, plain))
    assert near < far
    assert near < 0.005
    np.testing.assert_allclose(model.embed(SENTENCES, normalise=True), wanted, atol=1e-6)  # which is as it was
    alone = np.stack([small.embed(text) for text in SENTENCES])
    np.testing.assert_allclose(small.embed(SENTENCES), alone, atol=1e-4)


@pytest.mark.parametrize("make", [gated, lambda: peers("BertForMaskedLM").ours])
@pytest.mark.parametrize("copies", [1, 30])
def test_a_model_in_int8_can_be_sent_to_another_process(make, copies):
    small = make().quantise(SENTENCES * copies, loss=1.0)
    for again in (pickle.loads(pickle.dumps(small)), copy.deepcopy(small)):
        assert np.array_equal(again.embed(SENTENCES), small.embed(SENTENCES))


def test_another_answer_counts_as_much_as_the_model_prefers_its_own():
    model = peers("BertForSequenceClassification", ("no", "yes")).ours
    found = [one.scores for one in model.classify(SENTENCES)]
    other = Model(replace(model.checkpoint, description=replace(model.checkpoint.description, labels=("yes", "no"))))
    gaps = [abs(scores["no"] - scores["yes"]) for scores in found]
    assert _change("labels", _results(model, "labels", SENTENCES), _results(other, "labels", SENTENCES)) == (
        pytest.approx(sum(gaps) / len(gaps), abs=1e-6)
    )


@pytest.mark.parametrize("make", [lambda: load(gpt_folder()), translator, lambda: translator("t5")])
def test_a_model_that_writes_is_judged_by_what_it_writes(make):
    model = make()
    small = model.quantise(TEXTS, loss=1.0)
    assert isinstance(small.network.heads["causal_lm"], QuantisedNextTokenHead)
    assert isinstance(small.generate(TEXTS[0], max_new_tokens=4).text, str)
    with pytest.raises(BadInput, match=r"int8 changes the texts written of 3 samples by \d"):
        model.quantise(TEXTS, loss=-1.0)
    # what it wrote itself counts for nothing, and nothing that it would not write counts for less
    assert _change_of_texts(model, model, TEXTS) == 0.0
    generator = model.generator
    (ids,) = generator.ids(TEXTS[:1])
    ((best,),) = generator.write([ids], [6], GenerationConfig())
    told = math.exp(sum(best.log_probabilities) / len(best.log_probabilities))
    assert _probability_of_token(generator, ids, best) == pytest.approx(told, rel=1e-4)
    worse = replace(best, tokens=[*best.tokens[:-1], (best.tokens[-1] + 1) % 50])
    assert _probability_of_token(generator, ids, worse) < told


def test_what_is_refused(tmp_path):
    model = peers("BertForMaskedLM").ours
    with pytest.raises(BadInput, match="the sample is empty"):
        model.quantise([])
    small = model.quantise(SENTENCES, loss=1.0)
    with pytest.raises(BadInput, match="an int8 model is for use alone; save the fp32 one"):
        small.save(tmp_path / "folder")
    with pytest.raises(BadInput, match="this model is in int8 already"):
        in_int8(small.network)
