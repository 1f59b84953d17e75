"""Parallel text, and span corruption."""

import gzip
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead as ch
from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.data.examples import PairExample
from clearhead.data.pretraining import NeighbourTargets, with_neighbours
from clearhead.data.rng import Stream, rng
from clearhead.data.seq2seq import (
    ParallelBatches,
    SpanCorruptedBatches,
    SpanCorruption,
    corrupt,
    encode_parallel,
    parts_of,
    read_parallel,
    sentinels,
)
from clearhead.errors import BadConfig, BadInput, NotFound
from clearhead.text import train_tokenizer
from clearhead.training.step import split

# ---- parallel text

PAIRS = [PairExample("a " * n, "b " * (n % 4 + 1)) for n in range(1, 20)]


@pytest.fixture(scope="module")
def tokenizer():
    return ch.train_tokenizer(texts=["a b c"], kind="word", min_frequency=1)


def test_two_files_are_read_line_by_line(tmp_path):
    (tmp_path / "x.de").write_bytes("Hallo\u2028Welt\r\n\r\nJa\n".encode())
    with gzip.open(tmp_path / "x.en.gz", "wb") as file:
        file.write(b"Hello\nleft out\nYes\n")
    found = read_parallel([tmp_path / "x.de", tmp_path / "x.en.gz"])
    assert found == [PairExample("Hallo\u2028Welt", "Hello"), PairExample("Ja", "Yes")]


def test_one_table_is_read_by_columns(tmp_path):
    (tmp_path / "x.tsv").write_text("Hi\tHallo\tsomebody\nYes\tJa\tsomebody\n", encoding="utf-8")
    assert read_parallel([tmp_path / "x.tsv"])[0] == PairExample("Hi", "Hallo")
    assert read_parallel([tmp_path / "x.tsv"], first="2", second="1")[1] == PairExample("Ja", "Yes")
    (tmp_path / "x.csv").write_text("en,de\nHi,Hallo\n", encoding="utf-8")
    assert read_parallel([tmp_path / "x.csv"], first="de", second="en") == [PairExample("Hallo", "Hi")]


def test_what_is_not_parallel_is_refused(tmp_path):
    one, two = tmp_path / "one.en", tmp_path / "two.de"
    one.write_text("a\nb\n", encoding="utf-8")
    two.write_text("a\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"one.en has 2 lines, .*two.de has 1"):
        read_parallel([one, two])
    with pytest.raises(BadInput, match="3 files are not parallel text; give two, or one table"):
        read_parallel([one, one, two])
    with pytest.raises(BadInput, match=r"one\.en is one file and no table; give two, line by line"):
        read_parallel([one])
    with pytest.raises(NotFound, match="There is no file"):
        read_parallel([one, tmp_path / "none"])
    (tmp_path / "x.tsv").write_text("Hi\tHallo\nYes\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"x\.tsv, line 2 has 1 columns between tabs; 2 are needed"):
        read_parallel([tmp_path / "x.tsv"])
    with pytest.raises(BadInput, match="none named 'en'"):
        read_parallel([tmp_path / "x.tsv"], first="en")
    two.write_bytes(b"\xff\n")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_parallel([two, two])
    one.write_text("\n", encoding="utf-8")
    with pytest.raises(BadInput, match="holds no pair of texts"):
        read_parallel([one, one])


def test_every_pair_comes_once_with_its_source_and_an_end(tokenizer, caplog):
    encoded = encode_parallel(PAIRS, tokenizer, length=15)
    assert "5 sentences were longer than 15 tokens and were cut." in caplog.text
    source = ParallelBatches(encoded, seed=1, tokens=30)
    seen = []
    for index in range(source.batches_in(1)):
        batch, again = source.batch(index), source.batch(index)
        assert batch.source is not None
        assert torch.equal(batch.ids, again.ids)
        assert batch.tokens + batch.source.tokens <= 30
        for written, read in zip(
            batch.layout.split(batch.ids), batch.source.layout.split(batch.source.ids), strict=True
        ):
            assert written[-1] == read[-1] == tokenizer.sep_id
            assert (read[:-1] == tokenizer.token_to_id("a")).all()
            seen.append((len(read) - 1, len(written) - 1))
    assert sorted(seen) == sorted((min(n, 14), n % 4 + 1) for n in range(1, 20))
    assert source.epoch_of(source.batches_in(1)) == 1
    with pytest.raises(BadConfig, match="Sentences of 1 tokens hold nothing beside the end"):
        encode_parallel(PAIRS, tokenizer, length=1)


@given(pieces=st.sampled_from([2, 4, 8]), items=st.integers(1, 12))
def test_a_split_batch_keeps_its_sources(pieces, items):
    tokenizer = ch.train_tokenizer(texts=["a b c"], kind="word", min_frequency=1)
    encoded = encode_parallel(PAIRS[:items], tokenizer, length=30)
    whole = ParallelBatches(encoded, seed=0, tokens=10_000).batch(0)
    parts = split(whole, pieces)
    assert torch.equal(torch.cat([part.ids for part in parts]), whole.ids)
    assert torch.equal(torch.cat([part.source.ids for part in parts]), whole.source.ids)
    assert sum((part.source.layout.lengths for part in parts), ()) == whole.source.layout.lengths


def test_a_batch_moves_with_its_source():
    one = Batch.of([[1, 2]])
    moved = replace(one, source=one).to("meta")
    assert moved.source is not None
    assert moved.source.ids.device.type == moved.ids.device.type == "meta"


def test_neighbours_stay_in_their_sequence():
    class Plain:
        def batch(self, index):
            return Batch.of([[1, 2, 3], [], [4]])

        def batches_in(self, epochs):
            return 7

        def epoch_of(self, index):
            return 0.5

    source = NeighbourTargets(Plain())
    targets = source.batch(0).targets
    assert targets["next"].tolist() == [2, 3, IGNORE_INDEX, IGNORE_INDEX]
    assert targets["previous"].tolist() == [IGNORE_INDEX, 1, 2, IGNORE_INDEX]
    assert (source.batches_in(1), source.epoch_of(0)) == (7, 0.5)
    assert len(split(with_neighbours(Batch.of([[1, 2], [3, 4]])), 2)) == 2


# ---- span corruption

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
        SpanCorruptedBatches(None, tokenizer, SpanCorruption(span=1), length=2000)
