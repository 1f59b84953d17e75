"""Span corruption: as much is taken out as published, all ways being equally likely, and nothing is lost."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batch import Batch
from clearhead.data.rng import Stream, rng
from clearhead.data.seq2seq import SpanCorrupted, SpanCorruption, corrupt, parts_of, sentinels
from clearhead.errors import BadConfig, BadInput
from clearhead.text import train_tokenizer

END, FIRST = 1, 1000
SENTINELS = list(range(FIRST, FIRST + 100))


def corrupted(lengths, seed=0, **options):
    """Texts whose words are all different."""
    starts = np.cumsum([2, *lengths])
    texts = [[*range(start, start + n), END] for start, n in zip(starts, lengths, strict=False)]
    batch = corrupt(Batch.of(texts), SENTINELS, END, SpanCorruption(**options), rng(Stream.SPAN_CORRUPTION, seed))
    taken = [row.tolist() for row in batch.layout.split(batch.ids)]
    kept = [row.tolist() for row in batch.source.layout.split(batch.source.ids)]
    return texts, kept, taken


def put_back(kept, taken):
    """Read the two together again: what stands after a sentinel in one goes to its place in the other."""
    spans = {}
    for token in taken[:-1]:
        if token >= FIRST:
            spans[token] = []
            last = token
        else:
            spans[last].append(token)
    return [t for token in kept for t in (spans[token] if token >= FIRST else [token])]


@given(st.lists(st.integers(0, 130), min_size=1, max_size=6), st.integers(0, 99))
def test_nothing_is_lost(lengths, seed):
    texts, kept, taken = corrupted(lengths, seed)
    for text, rest, spans in zip(texts, kept, taken, strict=True):
        assert put_back(rest, spans) == text
        assert rest[-1] == spans[-1] == END
        marks = [token for token in rest if token >= FIRST]
        assert marks == [token for token in spans if token >= FIRST] == SENTINELS[: len(marks)]
        assert not any(a >= FIRST and b >= FIRST for a, b in pairwise(rest))
        if len(text) > 2:
            assert rest[0] < FIRST  # a text begins with what is kept
            assert rest[-2] >= FIRST  # and ends with a span


@pytest.mark.parametrize("length", [2, 3, 7, 20, 100, 128, 512])
def test_as_much_as_published(length):
    out, spans = SpanCorruption().counts(length)
    assert out == max(round(0.15 * length), 1)
    assert spans == max(round(out / 3), 1)
    _, kept, taken = corrupted([length])
    assert len(kept[0]) == length - out + spans + 1
    assert len(taken[0]) == out + spans + 1


def test_of_a_single_word_nothing_is_taken():
    texts, kept, taken = corrupted([0, 1])
    assert kept == texts
    assert taken == [[END], [END]]


def test_all_ways_to_cut_are_equally_likely():
    """A length of 6 has 10 ways to be cut into 3 parts; each comes in a tenth of the draws."""
    draw, count = rng(Stream.SPAN_CORRUPTION, 4), 20_000
    found = Counter(tuple(parts_of(6, 3, draw).tolist()) for _ in range(count))
    assert len(found) == 10
    assert all(sum(parts) == 6 and min(parts) >= 1 for parts in found)
    chi = sum((seen - count / 10) ** 2 / (count / 10) for seen in found.values())
    assert chi < 27.9  # what chance exceeds once in a thousand with 9 degrees of freedom


def test_the_exact_distribution_of_spans():
    """Of 7 words at a density of 0.4 three are lost, in two spans: 3 × 2 ways, each as likely as another."""
    found, count = Counter(), 6000
    for seed in range(count):
        _, kept, _ = corrupted([7], seed, density=0.4, span=1.5)
        found[tuple(kept[0])] += 1
    words = list(range(2, 9))
    ways = set()
    for first in (1, 2, 3):  # kept before the first span; 4 - first before the second
        for lost in (1, 2):  # in the first span
            second = words[first + lost : 4 + lost]
            ways.add((*words[:first], FIRST, *second, FIRST + 1, END))
    assert set(found) == ways
    assert len(ways) == 6
    chi = sum((seen - count / 6) ** 2 / (count / 6) for seen in found.values())
    assert chi < 20.5  # once in a thousand with 5 degrees of freedom


def test_bad_settings_are_refused():
    with pytest.raises(BadConfig, match=r"The density of spans is 1\.5"):
        SpanCorruption(density=1.5)
    with pytest.raises(BadConfig, match=r"Spans of 0.5 tokens are too short"):
        SpanCorruption(span=0.5)
    plain = train_tokenizer(texts=["a b a b"], vocabulary=20, min_frequency=1)
    with pytest.raises(BadInput, match=r"has no sentinels .*train one of kind t5"):
        sentinels(plain)
    tokenizer = train_tokenizer(texts=["a b a b"] * 3, kind="t5", vocabulary=130, min_frequency=1)
    assert len(sentinels(tokenizer)) == 100
    with pytest.raises(BadConfig, match="lose 300 spans, but the tokenizer has 100 sentinels"):
        SpanCorrupted(None, tokenizer, SpanCorruption(span=1), length=2000)
