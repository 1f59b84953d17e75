"""Orders of guessing: drawn anew for each text, a sixth asked for, special tokens never."""

from collections import Counter

import numpy as np
import pytest
import torch

from clearhead.data.batch import Batch
from clearhead.data.masking import Permuted, permute
from clearhead.data.pretraining import PackedText
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadConfig
from clearhead.text import train_tokenizer
from clearhead.training.step import split_batch

from .corpora import small_shards

SPECIAL = np.arange(40) < 5


def asked(lengths, seed=0, share=1 / 6):
    draw = np.random.default_rng(seed)
    texts = [[*draw.integers(5, 40, n).tolist(), 4, 3] for n in lengths]
    return permute(Batch.of(texts), SPECIAL, share, rng(Stream.PERMUTATION, seed))


def test_ranks_are_an_order_of_the_asked_words():
    batch = asked([12, 30, 1, 0, 7])
    text = batch.source
    assert batch.layout.lengths == (2, 5, 0, 0, 1)
    for ids, rank, places, words in zip(
        text.layout.split(text.ids),
        text.layout.split(text.targets["rank"]),
        batch.layout.split(batch.targets["place"]),
        batch.layout.split(batch.ids),
        strict=True,
    ):
        assert sorted(rank[places].tolist()) == list(range(1, len(places) + 1))
        assert rank.count_nonzero() == len(places)
        assert torch.equal(ids[places], words)
        assert (words >= 5).all()


def test_all_orders_are_equally_likely():
    """Of four words two are asked for, in 12 orders."""
    count = 12_000
    found = Counter(tuple(asked([4], seed, share=0.5).source.targets["rank"].tolist()) for seed in range(count))
    assert len(found) == 12
    chi = sum((seen - count / 12) ** 2 / (count / 12) for seen in found.values())
    assert chi < 31.3  # what chance exceeds once in a thousand with 11 degrees of freedom


def test_batches_are_functions_of_their_number_and_can_be_cut_in_two(tmp_path):
    shards, tokenizer, _ = small_shards(tmp_path)
    source = Permuted(PackedText(shards, tokenizer, tokens=96, length=24), tokenizer, seed=2)
    first, again, other = source.batch(3), source.batch(3), source.batch(4)
    assert torch.equal(first.source.targets["rank"], again.source.targets["rank"])
    assert not torch.equal(first.source.targets["rank"], other.source.targets["rank"])
    parts = split_batch(first)
    assert torch.equal(torch.cat([part.ids for part in parts]), first.ids)
    assert torch.equal(torch.cat([part.source.targets["rank"] for part in parts]), first.source.targets["rank"])
    assert torch.equal(torch.cat([part.targets["place"] for part in parts]), first.targets["place"])


def test_the_last_token_is_in_a_segment_of_its_own(tmp_path):
    texts = ["one two three four five six seven"] * 9
    tokenizer = train_tokenizer(texts=texts, kind="xlnet", vocabulary=60, min_frequency=1)

    class Plain:
        def batch(self, index):
            return Batch.of([tokenizer.encode(text).ids for text in texts])

    text = Permuted(Plain(), tokenizer).batch(0).source
    assert torch.equal(text.segments == 2, text.ids == tokenizer.cls_id)
    assert (text.segments == 2).sum() == len(texts)
    with pytest.raises(BadConfig, match="The share to guess is 0"):
        Permuted(Plain(), tokenizer, share=0)
