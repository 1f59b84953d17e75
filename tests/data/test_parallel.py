"""Parallel text: files line by line or tables, and batches in which every target lies beside its source."""

import gzip
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead as ch
from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.data.examples import PairExample
from clearhead.data.pretraining import NeighbourTargets, with_neighbours
from clearhead.data.seq2seq import ParallelBatches, encode_parallel, read_parallel
from clearhead.errors import BadConfig, BadInput, NotFound
from clearhead.training.step import split

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
