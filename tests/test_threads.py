"""Two threads compute batches of their own: whoever looks inside meanwhile sees his own texts, and all of them."""

import asyncio
import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import clearhead as ch
from clearhead.data.examples import WordsExample
from clearhead.inside import why
from clearhead.models.modernbert import ModernBertConfig
from clearhead.pipelines.int8 import ranges_of_inputs
from conftest import SENTENCES
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
    assert len(one) == 4 * len(model.encoder.blocks)
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


LONG = " ".join(["the river bank"] * 40)
HELD = []  # what a forked process finds there


def read_held(number):
    """What a process answers: few texts share the threads of a product, many have one each."""
    return number, HELD[0].embed(LONG), HELD[0].embed(TEXTS)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_reads_with_the_model_of_its_parent(model):
    def both():
        HELD[:] = [model]
        torch.ones(1500, 1500) @ torch.ones(1500, 1500)  # starts threads of OpenMP, which no fork survives
        wanted = read_held(0)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            # it must not wait for ever; nobody is that slow
            return wanted, pool.map_async(read_held, range(4)).get(timeout=120)

    wanted, found = by_threads(2, both)
    assert [number for number, *_ in found] == list(range(4))
    for _, *vectors in found:
        for one, other in zip(vectors, wanted[1:], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def uses_of(model):
    """Every kind of use, with skills and without, and looks inside: what each gives, as numbers."""
    text, other, many = SENTENCES[0], SENTENCES[2], SENTENCES * 6
    return {
        "embed": lambda: model.embed(many),
        "layers": lambda: model.embed(many, layers=[0, -1], combine="concat"),
        "classify": lambda: [list(one.scores.values()) for one in model.classify(many)],
        "spam": lambda: list(model.classify(text, skill="spam").scores.values()),
        "tag": lambda: [[word.score for word in one.words] for one in model.tag([text, text])],
        "answer": lambda: model.answer("Who was tired?", text).score,
        "compare": lambda: list(model.compare(text, other).scores.values()),
        "fill": lambda: [one.score for one in model.fill("wear a [MASK].").predictions],
        "search": lambda: [hit.score for hit in model.search("a bank", SENTENCES)],
        "trace": lambda: ch.trace(model, text).output.numpy(),
        "trace of a skill": lambda: ch.trace(model.skill("entities"), text).layers[1].weights.numpy(),
        "why": lambda: [one["scores"] for one in why(model, text).data["methods"].values()],
    }


def test_sixteen_threads_read_and_look_with_one_model(stand_in):
    alone = {name: use() for name, use in uses_of(ch.load(stand_in)).items()}
    names = list(alone)

    def in_turn(uses, first):
        """All uses, each thread beginning with another one."""
        return {name: uses[name]() for name in names[first:] + names[:first]}

    def side_by_side():
        uses = uses_of(ch.load(stand_in))  # no skill has been read: the threads meet there too
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(lambda number: in_turn(uses, number % len(names)), range(32)))

    for found in by_threads(2, side_by_side):
        for name in names:
            np.testing.assert_allclose(found[name], alone[name], atol=1e-5, err_msg=name)


def test_an_event_loop_reads_in_threads(stand_in):
    model = ch.load(stand_in)
    wanted = model.embed(SENTENCES)

    async def all_at_once():
        return await asyncio.gather(*(asyncio.to_thread(model.embed, SENTENCES) for _ in range(8)))

    for found in by_threads(2, lambda: asyncio.run(all_at_once())):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


SPAWNING = """
import multiprocessing, sys
import numpy as np
import clearhead

def vectors(model):
    return model.embed(["the bank", "a mask"])

if __name__ == "__main__":
    model = clearhead.load(sys.argv[1])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_allclose(pool.apply(vectors, [model]), vectors(model), atol=1e-5)
"""


def test_a_spawned_process_reads_with_the_model_that_is_sent_to_it(stand_in, tmp_path):
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNING)
    subprocess.run([sys.executable, script, stand_in], check=True)
