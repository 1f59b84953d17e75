"""Perplexity of plain text: every token asked once, whatever the batches; masked or next ones."""

import math

import pytest
import torch
import torch.nn.functional as F

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from clearhead.evaluation import perplexity as module
from clearhead.evaluation.perplexity import evaluate_texts, perplexity
from clearhead.models.xlnet import XLNetConfig
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


@pytest.fixture(scope="module")
def xlnet():
    words = ch.train_tokenizer(texts=TEXTS * 3, kind="xlnet", vocabulary=60)
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=words.vocabulary, d_model=32, n_layer=2, n_head=4, d_inner=48, dropout=0.0)
    return ch.Model.create(config, words, heads={"permutation_lm": words.vocabulary})


@torch.no_grad()
def test_an_xlnet_is_asked_from_left_to_right(xlnet, monkeypatch):
    total, count = 0.0, 0
    for text in TEXTS:
        ids = torch.tensor(xlnet.tokenizer.ids_batch([text])[0])
        for place in range(1, len(ids)):  # each word from those before it alone, without the others being there
            layout, asked = Packed.of([place + 1]), Packed.of([1])
            order = torch.arange(place + 1)  # those before it see only what stands before them, too
            hidden = xlnet.encoder.guess(ids[: place + 1], layout, order, torch.tensor([place]), asked)
            logits = xlnet.network.heads["permutation_lm"](hidden, asked)
            total -= float(logits.log_softmax(-1)[0, ids[place]])
            count += 1
    for tokens in (4096, 600):  # eight rows, or one, at a time
        monkeypatch.setattr(module, "TOKENS", tokens)
        found = evaluate_texts(xlnet, TEXTS)
        assert found["tokens"] == count
        assert found["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)


def test_with_a_memory_of_everything_cuts_do_not_count(xlnet, monkeypatch):
    long = [" ".join(TEXTS), TEXTS[0], " ".join(reversed(TEXTS))]
    whole = evaluate_texts(xlnet, long)
    monkeypatch.setattr(module, "LONGEST", 7)
    assert evaluate_texts(xlnet, long, memory=10_000) == pytest.approx(whole)
    parts, some = evaluate_texts(xlnet, long), evaluate_texts(xlnet, long, memory=5)
    assert parts["tokens"] < some["tokens"] == whole["tokens"]
    assert len({round(found["perplexity"], 6) for found in (whole, parts, some)}) == 3


@torch.no_grad()
def test_a_gpt_reads_again_what_it_is_to_remember(monkeypatch):
    model = ch.load(gpt_folder())
    monkeypatch.setattr(module, "LONGEST", 12)
    ids = torch.tensor(model.tokenizer.ids_batch([TEXTS[0]])[0])
    assert len(ids) > 14
    total = 0.0
    for place in range(1, len(ids)):
        part = max(place // 7 * 7 - 5, 0)  # parts of seven new tokens, each behind five old ones
        logits = model.network("causal_lm", ids[part:place], Packed.of([place - part]))
        total -= float(logits.log_softmax(-1)[-1, ids[place]])
    found = evaluate_texts(model, TEXTS[:1], memory=5)
    assert found["tokens"] == len(ids) - 1
    assert found["perplexity"] == pytest.approx(math.exp(total / found["tokens"]), rel=1e-4)
    with pytest.raises(BadInput, match="a memory of 12 tokens leaves no room for others among the 12 that are read"):
        evaluate_texts(model, TEXTS, memory=12)


def test_who_remembers_nothing_says_so(model, xlnet, tmp_path):
    for other in (model, ch.load(recurrent_folder("rnnlm-gru", tmp_path))):
        with pytest.raises(BadInput, match="memory=4 is for XLNet and GPT, not for"):
            evaluate_texts(other, TEXTS, memory=4)
    with pytest.raises(BadInput, match="a memory of -1 tokens is none"):
        evaluate_texts(xlnet, TEXTS, memory=-1)
    with pytest.raises(BadInput, match="the texts have no tokens"):
        evaluate_texts(xlnet, [""])


def test_who_guesses_no_token_is_refused(model, tmp_path):
    elmo = ch.load(recurrent_folder("elmo", tmp_path))
    for other in (translator("transformer"), translator("seq2seq-gru"), elmo):
        with pytest.raises(WrongTask, match="guesses no tokens; choose one with a masked-LM head, a GPT, or a rec"):
            evaluate_texts(other, TEXTS)
    with pytest.raises(BadInput, match="no tokens; give some that are not empty"):
        evaluate_texts(model, [])
