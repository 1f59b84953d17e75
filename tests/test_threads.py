"""Two threads compute batches of their own: whoever looks inside meanwhile sees his own texts, and all of them."""

import threading

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import clearhead as ch
from clearhead.data.examples import WordsExample
from clearhead.models.bert import Bert
from clearhead.models.modernbert import ModernBertConfig
from clearhead.pipelines.int8 import ranges_of_inputs
from probing import word_states

TEXTS = [" ".join(["the river bank"] * n) for n in (1, 2, 3, 5, 8, 13, 21, 30)] * 12
TOKENIZER = ch.train_tokenizer(texts=TEXTS, kind="wordpiece", vocabulary=60, min_frequency=1)
SIZES = {"vocab_size": TOKENIZER.vocabulary, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture(params=["bert", "modernbert"])
def model(request):
    torch.manual_seed(0)
    if request.param == "bert":
        config = ch.BertConfig(**SIZES, intermediate_size=24, max_position_embeddings=128)
    else:
        config = ModernBertConfig(**SIZES, intermediate_size=24, max_position_embeddings=128, pad_token_id=0)
    return ch.Model.create(config, TOKENIZER)


def by_threads(count, compute):
    """The result with this many threads, which is the setting of every user with as many cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return compute()
    finally:
        torch.set_num_threads(before)


def test_layers_are_those_of_each_text(model):
    one, two = (by_threads(n, lambda: model.embed(TEXTS, layers=[0, 1, -1], combine="concat")) for n in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_states_of_words(model):
    examples = [WordsExample(tuple(text.split())) for text in TEXTS]
    one, two = (by_threads(n, lambda: word_states(model, examples)) for n in (1, 2))
    assert_close(one, two, atol=2e-3, rtol=2e-3)  # float16


def test_ranges_are_those_of_all_texts(model):
    def ranges():
        with ranges_of_inputs(model.encoder) as found:
            model.embed(TEXTS)
        return found

    one, two = by_threads(1, ranges), by_threads(2, ranges)
    assert one.keys() == two.keys()
    assert bool(one) == isinstance(model.encoder, Bert)  # blocks with gates have no fixed steps
    for name in one:
        assert_close(one[name], two[name], atol=1e-5, rtol=1e-5)


def test_a_trace_sees_its_own_text_while_others_are_read(model):
    alone = ch.trace(model, "the bank")
    reading = threading.Thread(target=lambda: [model.embed(TEXTS) for _ in range(3)])

    def traces():
        reading.start()
        found = [ch.trace(model, "the bank")]
        while reading.is_alive():
            found.append(ch.trace(model, "the bank"))
        reading.join()
        return found

    for one in by_threads(2, traces):
        assert len(one.layers) == 2
        assert_close(one.output, alone.output, atol=1e-5, rtol=1e-5)
        assert_close(one.layers[1].weights, alone.layers[1].weights, atol=1e-5, rtol=1e-5)
