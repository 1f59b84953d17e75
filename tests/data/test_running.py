"""Running text: every token of an epoch once, in one row, with its successor."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.data.corpus import Corpus
from clearhead.data.pretraining import RunningText, document_boundaries
from clearhead.data.shards import Shards, tokenise
from clearhead.errors import BadInput
from clearhead.text import Tokenizer, train_tokenizer

from .corpora import small_shards


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shards, Tokenizer, list[str]]:
    return small_shards(tmp_path_factory.mktemp("corpus"))


def row_of(source: RunningText, batches: int) -> list[int]:
    return torch.cat([source.batch(index).ids for index in range(batches)]).tolist()


@pytest.mark.parametrize(("tokens", "length"), [(64, 16), (100, 33), (7, 7), (3000, 128)])
def test_batches_are_rectangles_and_know_what_comes_next(made, tokens, length):
    shards, tokenizer, _ = made
    source = RunningText(shards, tokenizer, tokens=tokens, length=length, seed=3)
    for index in range(9):
        batch, following = source.batch(index), source.batch(index + 1)
        assert set(batch.layout.lengths) == {length}
        assert batch.tokens == tokens // length * length
        row = torch.cat([batch.ids, following.ids[:1]])
        assert torch.equal(batch.targets["next"], row[1:])
        assert torch.equal(source.batch(index).ids, batch.ids)


def test_an_epoch_is_every_document_once(made):
    shards, tokenizer, texts = made
    source = RunningText(shards, tokenizer, tokens=50, length=10, seed=1, validation_share=0.0)
    epoch = source.batches_in(3) * 50
    row = np.array(row_of(source, source.batches_in(3) + 1))
    each = epoch // 3 + 1
    wanted = sorted([tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.ids_batch(texts))
    size = sum(map(len, wanted))
    assert abs(each - size) < 50
    for number in range(2):
        part = row[number * size : (number + 1) * size].tolist()
        ends = [i + 1 for i, token in enumerate(part) if token == tokenizer.sep_id]
        found = [part[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        assert sorted(found) == wanted
        assert found != wanted  # shuffled
    assert source.epoch_of(source.batches_in(1)) == pytest.approx(1, abs=50 / size)


def test_the_order_of_epochs_differs_and_depends_on_the_seed(made):
    shards, tokenizer, _ = made
    one, other = (RunningText(shards, tokenizer, tokens=60, length=20, seed=seed) for seed in (0, 1))
    assert row_of(one, 3) != row_of(other, 3)
    assert row_of(one, 3) == row_of(RunningText(shards, tokenizer, tokens=60, length=20, seed=0), 3)


def test_a_tokenizer_that_puts_nothing_round_a_text_still_ends_it(tmp_path: Path):
    texts = ["one two three four", "five six seven", "eight nine"] * 3
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(texts), "utf-8")
    tokenizer = train_tokenizer(texts=texts, kind="gpt2", vocabulary=300, min_frequency=1)
    shards = tokenise(Corpus(path), tokenizer, tmp_path / "shards")
    assert document_boundaries(tokenizer) == ((), (tokenizer.sep_id,))
    source = RunningText(shards, tokenizer, tokens=8, length=4, validation_share=0.0)
    written = tokenizer.decode(row_of(source, source.batches_in(1) + 1), special=True)
    assert set(written.split("<|endoftext|>")[:9]) == set(texts)


def test_what_cannot_be_cut_is_refused(made):
    shards, tokenizer, _ = made
    with pytest.raises(BadInput, match="Batches of 8 tokens cannot hold sequences of 9"):
        RunningText(shards, tokenizer, tokens=8, length=9)
    with pytest.raises(BadInput, match="Sequences of 0 tokens are empty"):
        RunningText(shards, tokenizer, tokens=8, length=0)
