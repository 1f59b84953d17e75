"""Shuffled batches hold every example once an epoch, and are functions of their number."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.dataset import ShuffledBatches
from clearhead.data.encode import encode_texts
from clearhead.data.examples import TextExample
from clearhead.errors import BadConfig
from data.small import tokenizer

LENGTHS = [1, 9, 3, 3, 7, 2, 12, 5, 5, 1, 4, 8, 2, 6, 3, 10, 1]
ENCODED = encode_texts([TextExample("a " * n, None, float(i)) for i, n in enumerate(LENGTHS)], tokenizer())
settings = st.one_of(
    st.fixed_dictionaries({"items": st.integers(1, 20), "grouped": st.booleans()}),
    st.fixed_dictionaries({"tokens": st.integers(1, 60), "grouped": st.booleans()}),
)


def scores(batch):
    return batch.targets["scores"].int().tolist()


@given(options=settings, seed=st.integers(0, 99))
def test_every_epoch_holds_every_example_once(options, seed):
    source = ShuffledBatches(ENCODED, seed=seed, **options)
    for epoch in range(3):
        batches = [source.batch(i) for i in range(source.batches_in(epoch), source.batches_in(epoch + 1))]
        assert sorted(i for batch in batches for i in scores(batch)) == list(range(len(LENGTHS)))
        for batch in batches:
            assert len(batch.layout.lengths) <= options.get("items", 99)
            assert batch.tokens <= options.get("tokens", 999) or len(batch.layout.lengths) == 1
            assert list(batch.layout.lengths) == sorted(batch.layout.lengths, reverse=True) or options["grouped"]


@given(options=settings, indices=st.lists(st.integers(0, 60), min_size=1, max_size=8))
def test_a_batch_depends_on_seed_and_index_alone(options, indices):
    source = ShuffledBatches(ENCODED, seed=5, **options)
    for index in indices:
        fresh = ShuffledBatches(ENCODED, seed=5, **options)
        assert torch.equal(source.batch(index).ids, fresh.batch(index).ids)
        assert source.epoch_of(index) == fresh.epoch_of(index)


def test_epochs_and_seeds_differ():
    def items(seed, epoch):
        source = ShuffledBatches(ENCODED, seed=seed, items=4)
        return [source.items(i).tolist() for i in range(source.batches_in(epoch), source.batches_in(epoch + 1))]

    assert items(0, 0) != items(0, 1)
    assert items(0, 0) != items(1, 0)


def test_counting():
    source = ShuffledBatches(ENCODED, seed=0, items=4)
    assert [source.batches_in(epochs) for epochs in (0, 0.4, 1, 1.6, 3)] == [0, 2, 5, 8, 15]
    assert [source.epoch_of(i) for i in (0, 4, 5, 12)] == [0, 0.8, 1, 2.4]


def test_grouped_batches_hold_like_lengths():
    spread = {
        grouped: np.mean(
            [np.ptp(source.batch(i).layout.lengths) for i in range(source.batches_in(1))]
        )
        for grouped in (False, True)
        for source in [ShuffledBatches(ENCODED, seed=0, items=4, grouped=grouped)]
    }  # fmt: skip
    assert spread[True] < spread[False] / 2


def test_two_threads_see_the_same_batches():
    source, alone = ShuffledBatches(ENCODED, seed=0, tokens=30), ShuffledBatches(ENCODED, seed=0, tokens=30)
    found = [[], []]

    def run(place):
        found[place] += [(source.epoch_of(i), source.items(i).tolist()) for i in range(200)]

    threads = [threading.Thread(target=run, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == [(alone.epoch_of(i), alone.items(i).tolist()) for i in range(200)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Give items or tokens per batch, not None and None"),
        ({"items": 1, "tokens": 1}, "not 1 and 1"),
        ({"items": 0}, "A batch of 0 is empty"),
        ({"tokens": -1}, "A batch of -1 is empty"),
    ],
)
def test_settings_that_make_no_batches(options, message):
    with pytest.raises(BadConfig, match=message):
        ShuffledBatches(ENCODED, seed=0, **options)


def test_there_is_no_batch_before_the_first():
    with pytest.raises(BadConfig, match="no batch -1"):
        ShuffledBatches(ENCODED, seed=0, items=2).batch(-1)
