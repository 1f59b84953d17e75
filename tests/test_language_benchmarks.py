"""The figures of language models are counted as usually reported, and no token twice or never."""

import argparse
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import contextual
import wikitext
from clearhead.data.examples import WordsExample
from clearhead.training.tasks.language import CausalLM

LINES = [" \n", " = Title = \n", " \n", " the cat sat on the mat . \n", " a <unk> sat @-@ sat . \n"]


@pytest.fixture
def folder(tmp_path):
    for name, times in (("train", 40), ("valid", 3), ("test", 2)):
        (tmp_path / f"{name}.txt").write_text("".join(LINES * times), "utf-8")
    return tmp_path


def test_words_are_counted_with_the_ends_of_all_lines(folder, monkeypatch):
    monkeypatch.setattr(wikitext, "PIECES", 280)
    each = sum(len(line.split()) + 1 for line in LINES)
    words, known = wikitext.read_words(folder)
    assert words["test"].words == len(words["test"].ids) == 2 * each
    assert known == len({word for line in LINES for word in line.split()} | {"<eos>"})
    pieces, _ = wikitext.read_pieces(folder)
    assert pieces["test"].words == 2 * each
    assert len(pieces["test"].ids) > 2 * each


class Constant(nn.Module):
    """Gives every token the same chance, but remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, ids, layout):
        self.seen += layout.lengths
        return torch.zeros(len(ids), 50)


@pytest.mark.parametrize("length", [2, 100, 129, 256, 257, 385, 1000])
def test_every_token_but_the_first_is_measured_once(length):
    ids = np.arange(length) % 50
    network = Constant()
    total, count = wikitext.loss_of(CausalLM(network), ids, "cpu")
    assert count == length - 1
    assert total == pytest.approx(count * math.log(50), rel=1e-5)
    assert max(network.seen) <= wikitext.WINDOW


def test_a_row_is_cut_anew_in_each_epoch():
    ids = np.arange(20_000)
    source = wikitext.Row(ids)
    first, again = source.batch(0), source.batch(0)
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.ids + 1, first.targets["next"])
    assert set(first.layout.lengths) == {wikitext.WINDOW}  # so that every position of an evaluation was learnt
    seen = torch.cat([source.batch(index).ids for index in range(source.batches_in(1))])
    assert len(seen.unique()) == len(seen)
    assert not torch.equal(source.batch(source.batches_in(1)).ids, first.ids)


def test_wic_needs_a_vector_that_changes(tmp_path):
    rows = ["bank\tN\t1-0\tThe bank of rivers .\tBank on it .", "cat\tN\t1-1\tA cat .\tThe cat ."]
    for part in ("train", "dev"):
        (tmp_path / f"{part}.data.txt").write_text("\n".join(rows) + "\n", "utf-8")
        (tmp_path / f"{part}.gold.txt").write_text("F\nT\n", "utf-8")
    pairs = contextual.read_wic(tmp_path, "train", None)
    words = [word for one in pairs.sentences for word in one.words]
    assert [words[place] for place in pairs.places] == ["bank", "Bank", "cat", "cat"]

    def told(sentences: list[WordsExample]) -> torch.Tensor:
        """A layer that is the same for all words, and one in which "Bank on it" is another bank."""
        other = [[float(word == "Bank"), 1.0 - float(word == "Bank")] for one in sentences for word in one.words]
        return torch.stack([torch.ones(len(other), 2), torch.tensor(other)], 1)

    assert contextual.wic_accuracy(told, pairs, pairs)[:2] == (100.0, 1)
    assert contextual.wic_accuracy(lambda sentences: told(sentences)[:, :1], pairs, pairs)[0] == 50.0


def test_a_model_is_read_when_its_turn_comes(monkeypatch):
    options = argparse.Namespace(model=[Path("a/b"), Path("c/d")], corpus=[], device="cpu")
    loaded = []
    monkeypatch.setattr(contextual.clearhead, "load", lambda folder, device: loaded.append(folder))
    names = contextual.readers(options)
    assert [next(names)[0], next(names)[0]] == ["a/b", "a/b, embeddings"]
    assert loaded == [Path("a/b")]


def test_a_line_of_the_table_says_deviations_where_there_are_seeds():
    row = {"vectors": "elmo", "layers": 3, "wic": 57.04, "wic_layer": 1, "dev_f1": 90.0, "test_f1": 85.06, "seeds": 1}
    assert contextual.line(row) == "| elmo | 3 | 57.0 (1) | 90.0 | 85.1 |"
    several = row | {"seeds": 3, "dev_deviation": 0.1, "test_deviation": 0.26}
    assert contextual.line(several) == "| elmo | 3 | 57.0 (1) | 90.0 ± 0.1 | 85.1 ± 0.3 |"
