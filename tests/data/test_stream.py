"""What is streamed is what would be read at once: the same examples, and the same data set, from disk."""

import json
import logging

import numpy as np
import pytest

from clearhead.data import formats
from clearhead.data.dataset import ShuffledBatches
from clearhead.data.encode import encode_pairs, encode_texts
from clearhead.data.examples import Labels
from clearhead.data.stream import StreamedExamples, find_tokenised, tokenise_to_disk
from clearhead.data.tables import open_blocks, open_table
from clearhead.errors import BadInput, NotFound
from data.small import tokenizer

WORDS = ("cat", "man", "mat", "dog")
ROWS = [{"text": f"a {WORDS[i % 4]}" + " sat" * (i % 5), "label": "yn"[i % 2]} for i in range(23)]


def write(path, rows=ROWS):
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))  # an empty line is none
        case ".parquet":
            parquet = pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path, row_group_size=9)
        case ".csv":
            path.write_text("text,label\n" + "".join(f'"{row["text"]}\n""so""",{row["label"]}\r\n' for row in rows))
        case _:
            path.write_text("\ufefftext\tlabel\n" + "".join(f"{row['text']}\t{row['label']}\n" for row in rows))
    return path


def streamed(path, rows=5, read=formats.read_texts):
    return StreamedExamples(path, read, rows=rows)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.parquet"])
def test_blocks_are_the_table_in_parts(tmp_path, name):
    path = write(tmp_path / name)
    whole, told = open_table(path), []
    blocks = list(open_blocks(path, 5, told.append))
    assert [len(block) for block in blocks] == [5, 5, 5, 5, 3]
    assert [list(row) for block in blocks for row in block.rows] == [list(row) for row in whole.rows]
    assert [place for block in blocks for place in block.places()] == list(whole.places())
    assert {block.columns for block in blocks} == {whole.columns}
    assert sum(told) == path.stat().st_size
    examples = streamed(path)
    assert len(examples) == 23
    assert list(examples) == list(examples) == formats.read_texts(path)
    assert [one.where for one in examples] == [one.where for one in formats.read_texts(path)]


def test_a_key_that_some_records_leave_out(tmp_path):
    rows = [
        {"text": "a cat", "label": "y"},
        {"text": "a man", "label": "n", "pair": "a mat"},
        {"label": "y", "text": "a"},
    ]
    blocks = list(open_blocks(write(tmp_path / "a.jsonl", rows), 1))
    assert [block.columns for block in blocks] == [("text", "label"), *[("text", "label", "pair")] * 2]
    assert blocks[2].rows == [["a", "y", None]]


@pytest.mark.parametrize("seed", [0, 1])
def test_tokens_from_disk_give_the_same_batches(tmp_path, seed):
    path, words, told = write(tmp_path / "a.jsonl"), tokenizer(), []
    labels = Labels.of(one.label for one in formats.read_texts(path))
    whole = encode_texts(formats.read_texts(path), words, labels, length=16)

    def encode(block):
        return encode_texts(block, words, labels, length=16)

    found = tokenise_to_disk(streamed(path), encode, tmp_path / "out" / "tokens", {"data": "1"}, told.append)
    assert sum(told) == path.stat().st_size
    assert len(found) == len(whole)
    ours, theirs = (ShuffledBatches(one, seed=seed, items=4) for one in (found, whole))
    for index in range(12):  # two epochs
        one, other = ours.batch(index), theirs.batch(index)
        assert one.ids.tolist() == other.ids.tolist()
        assert one.layout.lengths == other.layout.lengths
        assert one.targets["classes"].tolist() == other.targets["classes"].tolist()
    assert isinstance(found.ids.base, np.memmap)
    assert find_tokenised(tmp_path / "out" / "tokens", {"data": "1"}) is not None
    assert find_tokenised(tmp_path / "out" / "tokens", {"data": "2"}) is None
    tokenise_to_disk(streamed(path), encode, tmp_path / "out" / "tokens", {"data": "2"})  # in its place
    assert find_tokenised(tmp_path / "out" / "tokens", {"data": "2"}) is not None
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["tokens"]


def test_pairs_lie_apart_in_their_blocks(tmp_path):
    rows = [{"first": f"a {WORDS[i % 4]}", "second": "a man sat" * (1 + i % 3), "score": i / 12} for i in range(12)]
    path, words = write(tmp_path / "a.jsonl", rows), tokenizer()
    whole = encode_pairs(formats.read_pairs(path), words, length=16)
    examples = streamed(path, read=formats.read_pairs)
    found = tokenise_to_disk(examples, lambda block: encode_pairs(block, words, length=16), tmp_path / "tokens", {})
    items = np.array([11, 0, 6])
    assert found.batch(items).ids.tolist() == whole.batch(items).ids.tolist()
    assert found.batch(items).targets["similarity"].tolist() == whole.batch(items).targets["similarity"].tolist()


def test_nothing_is_left_of_what_was_broken_off(tmp_path):
    words, path = tokenizer(), write(tmp_path / "a.jsonl", [*ROWS[:7], {"text": 3, "label": "y"}])

    def encode(block):
        return encode_texts(block, words, Labels(("n", "y")))

    with pytest.raises(BadInput, match=r"a.jsonl, line 15 has 3 for 'text', which is no text"):
        tokenise_to_disk(streamed(path), encode, tmp_path / "out" / "tokens", {})
    assert not list((tmp_path / "out").iterdir())


def test_a_warning_is_said_of_the_first_block_alone(tmp_path, caplog):
    words, path = tokenizer(), write(tmp_path / "a.jsonl")
    with caplog.at_level(logging.WARNING):
        tokenise_to_disk(
            streamed(path), lambda block: encode_texts(block, words, Labels(("n", "y")), length=4), tmp_path / "t", {}
        )
    assert caplog.text.count("longer than the model takes") == 1


def test_what_cannot_be_streamed(tmp_path):
    for source in ("hub:owner/name", tmp_path / "a.json"):
        with pytest.raises(BadInput, match="is read whole; to stream it, give a file of lines"):
            next(open_blocks(source, 5))
    for name in ("none.jsonl", "none.csv", "none.parquet"):
        with pytest.raises(NotFound, match="There is no file"):
            next(open_blocks(tmp_path / name, 5))
    (empty := tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(BadInput, match=r"empty.jsonl has no rows"):
        list(open_blocks(empty, 5))
    (wrong := tmp_path / "wrong.jsonl").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        list(open_blocks(wrong, 5))
    mixed = write(tmp_path / "mixed.jsonl", [*ROWS[:5], *({"text": "a cat"} for _ in range(5))])
    with pytest.raises(BadInput, match=r"the rows of .*mixed.jsonl are not all of one kind: some have a label"):
        list(streamed(mixed))


def test_a_damaged_file_is_told(tmp_path):
    words = tokenizer()
    tokenise_to_disk(
        streamed(write(tmp_path / "a.tsv")),
        lambda block: encode_texts(block, words, Labels(("n", "y"))),
        tmp_path / "t",
        {},
    )
    (tmp_path / "t" / "ids").write_bytes((tmp_path / "t" / "ids").read_bytes()[:-4])
    with pytest.raises(BadInput, match=r"ids is damaged or missing; remove .*t, and it is tokenised again"):
        find_tokenised(tmp_path / "t", {})
