"""The whole model on one page: its numbers are the trace's, its answers the model's own, for every family."""

import pytest
import torch
from torch.testing import assert_close

import clearhead as ch
from clearhead.data.batch import Batch
from clearhead.errors import BadInput, WrongTask
from clearhead.inside import model_view, whole_model
from clearhead.inside.model_view import FEATURES
from clearhead.inside.trace import trace
from inside.models import LABELS, small, telling
from pipelines.writers import TEXTS, translator

TEXT, PAIR = "the animal was tired", "it was late"


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert", "gpt2", "xlnet"])
def test_every_vector_is_the_traces(family):
    model = small(family, {"gpt2": "causal_lm", "xlnet": None}.get(family, "masked_lm"))
    traced = trace(model, TEXT)
    (side,) = whole_model(model, TEXT).data["sides"]
    assert side["tokens"] == traced.tokens
    assert side["pre_norm"] is (family in ("modernbert", "gpt2"))
    assert len(side["blocks"]) == len(traced.layers)
    for steps, layer in zip(side["blocks"], traced.layers, strict=True):
        expected = [layer.attention_output, layer.middle, layer.feedforward_output, layer.hidden]
        for step, x in zip(steps, expected, strict=True):
            assert_close(torch.tensor(step["values"]), x[:, :FEATURES], atol=5.1e-4, rtol=0)
            assert_close(torch.tensor(step["norms"]), x.norm(dim=-1), atol=5.1e-3, rtol=0)
        assert_close(torch.tensor(steps[0]["weights"]), layer.weights.mean(0), atol=5.1e-4, rtol=0)
    last = side["input"][-1]["values"]
    assert_close(torch.tensor(last), traced.embeddings[:, :FEATURES], atol=5.1e-4, rtol=0)
    assert (side["output"] is not None) is side["pre_norm"]


@pytest.mark.parametrize(
    ("family", "positions", "gated", "parts"),
    [
        ("bert", "learned", False, ["token", "position", "segment", "sum", "normalised"]),
        ("modernbert", "rotary", True, ["token", "normalised"]),
        ("gpt2", "learned", False, ["token", "position", "sum"]),
        ("xlnet", "relative", False, ["token", "normalised"]),
    ],
)
def test_the_diagram_is_of_the_model_that_is_loaded(family, positions, gated, parts):
    (side,) = whole_model(small(family, None), TEXT).data["sides"]
    anatomy = side["anatomy"]
    assert (anatomy["positions"], anatomy["gated"], anatomy["heads"]) == (positions, gated, 4)
    assert anatomy["causal"] is (family == "gpt2")
    assert side["name"] == ("Decoder" if family == "gpt2" else "Encoder")
    assert [row["name"] for row in side["input"]] == parts


def test_a_block_whose_input_is_normal_already_has_no_first_norm():
    (side,) = whole_model(small("modernbert"), TEXT).data["sides"]
    assert [steps[0]["normed"] for steps in side["blocks"]] == [False, True, True, True]
    assert not any(steps[0]["normed"] for steps in whole_model(small(), TEXT).data["sides"][0]["blocks"])


def test_a_mask_is_filled():
    model, text = small(), "the [MASK] was tired"
    data = whole_model(model, text).data
    best = model.fill(text, top_k=5).predictions
    assert data["answer"]["reads"] == [data["sides"][0]["tokens"].index("[MASK]")]
    assert data["answer"]["items"] == [[one.token, pytest.approx(one.score, abs=1e-3)] for one in best]


def test_without_a_mask_it_is_said_in_every_place():
    data = whole_model(small(), TEXT).data
    assert data["answer"]["items"] == []
    assert all(0 < share <= 1 for _, share in data["sides"][0]["said"])


def test_a_class_is_read_from_the_first_token_or_from_all():
    for family, reads in {"bert": [0], "modernbert": list(range(6))}.items():
        model = small(family, "classes", 2, labels=("no", "yes"))
        data = whole_model(model, TEXT).data
        best = model.classify(TEXT)
        assert data["answer"]["reads"] == reads
        assert data["answer"]["items"][0] == [best.label, pytest.approx(best.score, abs=1e-3)]


def test_two_texts_are_told_to_follow():
    data = whole_model(small(head="next_sentence", outputs=2), TEXT, PAIR).data
    score = small(head="next_sentence", outputs=2).follows(TEXT, PAIR).probability
    assert dict(data["answer"]["items"])["the second text follows"] == pytest.approx(score, abs=1e-3)
    assert data["sides"][0]["segments"] == trace(small(), TEXT, PAIR).sides


def test_every_token_has_a_tag_and_a_span_has_two_ends():
    said = whole_model(telling(), "the bank").data["sides"][0]["said"]
    assert [said[0], said[-1]] == [None, None]
    assert {label for label, _ in said[1:-1]} <= set(LABELS)
    data = whole_model(small(head="span", outputs=2), TEXT, PAIR).data
    first, last = data["answer"]["reads"]
    assert 7 <= first <= last < len(data["sides"][0]["tokens"])


def test_a_gpt_says_what_comes_next():
    model = small("gpt2", "causal_lm")
    data = whole_model(model, TEXT).data
    assert data["answer"]["reads"] == [len(data["sides"][0]["tokens"]) - 1]
    batch = Batch.of([trace(model, TEXT).ids])
    with torch.no_grad():
        best = float(model.network("causal_lm", batch.ids, batch.layout)[-1].softmax(-1).max())
    assert data["answer"]["items"][0][1] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("kind", ["transformer", "t5"])
def test_an_encoder_decoder_has_two_stacks(kind):
    model = translator(kind)
    data = whole_model(model, TEXTS[0]).data
    reads, writes = data["sides"]
    assert [side["name"] for side in (reads, writes)] == ["Encoder", "Decoder"]
    greedy = model.generate(TEXTS[0], max_new_tokens=24, num_beams=1)
    assert data["answer"]["text"] == greedy.text
    names = [step["name"] for step in writes["blocks"][0] if "weights" in step]
    assert names == ["masked attention", "cross-attention"]
    for steps in writes["blocks"]:
        for step in steps:
            for row in step.get("weights", []):
                assert sum(row) == pytest.approx(1, abs=0.02)
        assert len(steps[2]["weights"][0]) == len(reads["tokens"])
        causal = torch.tensor(steps[0]["weights"])
        assert (causal.triu(1) == 0).all()
    assert all(0 < share <= 1 for _, share in writes["said"])


def test_what_the_translator_writes_is_likely_as_generation_says():
    model = ch.load("builtin:translator")
    data = whole_model(model, "Je suis étudiant").data
    written = model.generator.write([model.generator.ids([">>en<< Je suis étudiant"])[0]], [24], greedy_config())
    shares = [share for _, share in data["sides"][1]["said"]]
    expected = torch.tensor(written[0][0].log_probabilities).exp().tolist()
    assert shares[: len(expected)] == pytest.approx(expected, abs=2e-3)


def greedy_config():
    from clearhead.decoding.config import GenerationConfig

    return GenerationConfig()


def test_what_cannot_be_drawn_is_said(monkeypatch):
    with pytest.raises(WrongTask, match="recurrent and has no blocks to draw"):
        whole_model(translator("seq2seq-lstm-additive"), "ein Haus")
    with pytest.raises(WrongTask, match="reads one text, its source"):
        whole_model(translator("transformer"), "ein Haus", "zwei")
    monkeypatch.setattr(model_view, "LIMIT", 4)
    with pytest.raises(BadInput, match="this page shows at most 4"):
        whole_model(small(), "the " * 70)
