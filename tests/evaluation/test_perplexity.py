"""Perplexity of plain text: every token asked once, whatever the batches; masked or next ones."""

import math

import pytest
import torch
import torch.nn.functional as F

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from clearhead.evaluation import perplexity as module
from clearhead.evaluation.perplexity import evaluate_texts, perplexity
from clearhead.nn.layout import Packed
from pipelines.writers import TEXTS, gpt_folder, recurrent_folder, translator


def test_guessing_among_v_words_has_perplexity_v():
    assert perplexity([10 * math.log(50), 3 * math.log(50)], [10, 3]) == pytest.approx(50)


def test_sums_before_division():
    # 1 token of loss 4 and 3 tokens of loss 0: mean 1, not the mean 2 of the batches
    assert perplexity([4.0, 0.0], [1, 3]) == pytest.approx(math.e)


def test_too_large_for_a_float():
    assert perplexity([1000.0], [1]) == math.inf


@pytest.mark.parametrize(
    ("losses", "counts", "message"),
    [
        ([1.0], [1, 2], "1 gold items and 2 counts"),
        ([], [], "no gold items"),
        ([0.0], [0], "No token is to be guessed: the counts add up to 0 tokens; give longer texts"),
        ([math.nan], [1], "add up to nan"),
    ],
)
def test_bad_sums(losses, counts, message):
    with pytest.raises(BadInput, match=message):
        perplexity(losses, counts)


@torch.no_grad()
def test_a_gpt_is_asked_for_every_next_token_whatever_the_batches(monkeypatch):
    model = ch.load(gpt_folder())
    total, count = 0.0, 0
    for text in TEXTS:
        ids = torch.tensor(model.tokenizer.encode(text).ids)
        logits = model.network("causal_lm", ids, Packed.of([len(ids)]))
        total += float(F.cross_entropy(logits[:-1], ids[1:], reduction="sum"))
        count += len(ids) - 1
    for tokens in (4096, 8):
        monkeypatch.setattr(module, "TOKENS", tokens)
        found = evaluate_texts(model, TEXTS)
        assert found["tokens"] == count
        assert found["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)


@pytest.mark.parametrize("kind", ["rnnlm-lstm", "rnnlm-gru"])
def test_a_recurrent_model_is_asked_as_a_gpt_is(kind, tmp_path, monkeypatch):
    model = ch.load(recurrent_folder(kind, tmp_path))
    total, count = 0.0, 0
    with torch.no_grad():
        for text in TEXTS:
            first, *ids = model.tokenizer.encode(text).ids
            logits, state = model.network.begin([[first]])
            for token in ids:
                total -= float(logits.log_softmax(-1)[0, token])
                count += 1
                logits, state = model.network.step(torch.tensor([token]), state)
    for tokens in (4096, 8):
        monkeypatch.setattr(module, "TOKENS", tokens)
        found = evaluate_texts(model, TEXTS)
        assert found["tokens"] == count
        assert found["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)


def test_a_recurrent_model_reads_long_texts_in_parts(tmp_path, monkeypatch):
    model = ch.load(recurrent_folder("rnnlm-gru", tmp_path))
    monkeypatch.setattr(module, "LONGEST", 10)
    whole, specials = model.tokenizer.ids_batch([TEXTS[0]])[0], model.tokenizer.template.specials(pair=False)
    parts = math.ceil(len(whole) / (10 - specials))
    assert evaluate_texts(model, TEXTS[:1])["tokens"] == len(whole) + parts * (specials - 1)


def test_masks_are_the_same_each_time_and_a_share_of_the_tokens(model):
    texts = ["the river bank " * 20, "money in the bank"]
    found = evaluate_texts(model, texts)
    assert found == evaluate_texts(model, texts)
    asked = sum(len(model.tokenizer.ids_batch([text])[0]) for text in texts)
    assert found["tokens"] == round(0.15 * asked)
    assert found["perplexity"] > 1
    assert 0 <= found["accuracy"] <= 100


def test_a_text_that_is_too_long_is_cut_and_all_of_it_counts(model):
    longest = model.encoder.max_length
    found = evaluate_texts(model, ["bank " * (3 * longest)])
    assert found["tokens"] == round(0.15 * 3 * longest)


def test_who_guesses_no_token_is_refused(model, tmp_path):
    elmo = ch.load(recurrent_folder("elmo", tmp_path))
    for other in (translator("transformer"), translator("seq2seq-gru"), elmo):
        with pytest.raises(WrongTask, match="guesses no tokens; choose one with a masked-LM head, a GPT, or a rec"):
            evaluate_texts(other, TEXTS)
    with pytest.raises(BadInput, match="no tokens; give some that are not empty"):
        evaluate_texts(model, [])
