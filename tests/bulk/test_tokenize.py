"""The corpus of a pre-training is tokenised by `bulk`, and comes out as if one process had done it."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from bulk.rows import parts
from clearhead.bulk.run import run_bulk
from clearhead.data import shards as module
from clearhead.data.corpus import TOKENIZER, Corpus
from clearhead.data.shards import tokenise
from clearhead.errors import BadInput
from data.corpora import word_tokenizer, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "corpus.jsonl"
    write_corpus(path)
    with path.open("a") as file:
        file.write('{"text": ""}\n{"text": "w1."}\n')
    return path


@pytest.fixture(scope="module")
def by_bulk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    word_tokenizer().save(folder / "tokenizer")

    def by_bulk(corpus, out, workers):
        named = {"model": str(folder / "tokenizer"), "shard_rows": 10, "workers": workers}
        return folder / out, run_bulk("tokenize", corpus, folder / out, **named)

    return by_bulk


@pytest.fixture(scope="module")
def tokens(by_bulk, corpus):
    folder, found = by_bulk(corpus, "out", 2)
    assert (found.shards, found.errors) == (5, 0)
    return folder


def made(source, folder):
    """The shards of a corpus, without what names its files."""
    tokenise(Corpus(source), word_tokenizer(), folder, shard_tokens=300)
    found = parts(folder)
    manifest = json.loads(found.pop(module.MANIFEST))
    assert len(manifest["shards"]) > 3
    return found, manifest["shards"]


def test_the_shards_are_those_of_the_text(corpus, tokens, tmp_path):
    assert made(tokens, tmp_path / "one") == made(corpus, tmp_path / "other")


def test_putting_together_goes_on_where_it_was(corpus, tokens, tmp_path, monkeypatch):
    real, written = module._write, []

    def killed(*given):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(real(*given))

    monkeypatch.setattr(module, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        made(tokens, tmp_path / "again")
    monkeypatch.setattr(module, "_write", real)
    assert made(tokens, tmp_path / "again") == made(corpus, tmp_path / "whole")


def test_documents_that_could_not_be_read_are_left_out_and_counted(corpus, by_bulk, tmp_path, caplog):
    lines = corpus.read_text().splitlines(keepends=True)
    (tmp_path / "bad.jsonl").write_text("".join([*lines[:3], "no JSON\n", '{"text": 5}\n', *lines[3:]]))
    folder, found = by_bulk(tmp_path / "bad.jsonl", "bad", 1)
    assert found.errors == 2
    assert made(folder, tmp_path / "one")[0] == made(corpus, tmp_path / "whole")[0]
    assert "2 documents had no text" in caplog.text


def test_what_does_not_fit_is_refused(corpus, tokens, tmp_path):
    tokens, others = shutil.copytree(tokens, tmp_path / "tokens"), tmp_path / "others.parquet"
    one = tokens / "part-000001.parquet"
    pq.write_table(pq.read_table(one).replace_schema_metadata({TOKENIZER: "of another"}), others)
    with pytest.raises(BadInput, match="tokenised with another tokenizer; name the one it was made with"):
        made(others, tmp_path / "out")
    for several in ([tokens, corpus], [tokens, others]):
        with pytest.raises(BadInput, match="are not of one kind: text, or tokens of one tokenizer"):
            made(several, tmp_path / "out")
    with pytest.raises(BadInput, match=r'has no column "text"; .* name the tokenizer, or give the text'):
        next(Corpus(tokens).documents())
    group, content = pq.read_metadata(one).row_group(0), bytearray(one.read_bytes())
    (ids,) = [at for at in map(group.column, range(group.num_columns)) if at.path_in_schema.startswith("ids.")]
    content[ids.data_page_offset : ids.data_page_offset + 20] = bytes(20)
    one.write_bytes(content)
    with pytest.raises(BadInput, match=r"part-000001.parquet cannot be read \(.*\); tokenise its text again"):
        list(Corpus(tokens).tokens())
    one.unlink()
    with pytest.raises(BadInput, match="tokens holds 4 of 5 parts, since `clearhead bulk` has not ended; run it again"):
        made(tokens, tmp_path / "out")
