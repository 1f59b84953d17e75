"""The corpus of a pre-training is tokenised by `bulk`, and comes out as if one process had done it."""

import json

import pytest

from bulk.rows import parts
from clearhead.bulk.run import run_bulk
from clearhead.data import shards as module
from clearhead.data.corpus import Corpus
from clearhead.data.shards import tokenise
from clearhead.errors import BadInput
from data.corpora import word_tokenizer, write_corpus

DOCUMENTS = 40


@pytest.fixture
def tokenizer(tmp_path):
    word_tokenizer().save(tmp_path / "tokenizer")
    return word_tokenizer()


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "corpus.jsonl", DOCUMENTS)
    with (tmp_path / "corpus.jsonl").open("a") as file:
        file.write('{"text": ""}\n{"text": "w1."}\n')
    return tmp_path / "corpus.jsonl"


def by_bulk(corpus, tmp_path, **options):
    named = {"model": str(tmp_path / "tokenizer"), "shard_rows": 10, "workers": 1} | options
    return run_bulk("tokenize", corpus, tmp_path / "tokens", **named)


def made(source, tokenizer, folder):
    """The shards of a corpus, without what names its files."""
    tokenise(Corpus(source), tokenizer, folder, shard_tokens=300)
    found = parts(folder)
    manifest = json.loads(found.pop(module.MANIFEST))
    assert len(manifest["shards"]) > 3
    return found, manifest["shards"]


def test_the_shards_are_those_of_the_text(corpus, tokenizer, tmp_path):
    assert by_bulk(corpus, tmp_path, workers=2).shards == 5
    assert made(tmp_path / "tokens", tokenizer, tmp_path / "one") == made(corpus, tokenizer, tmp_path / "other")


def test_putting_together_goes_on_where_it_was(corpus, tokenizer, tmp_path, monkeypatch):
    by_bulk(corpus, tmp_path)
    whole = made(corpus, tokenizer, tmp_path / "whole")
    real, written = module._write, []

    def killed(*given):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(real(*given))

    monkeypatch.setattr(module, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "tokens", tokenizer, tmp_path / "again")
    monkeypatch.setattr(module, "_write", real)
    assert made(tmp_path / "tokens", tokenizer, tmp_path / "again") == whole


def test_documents_that_could_not_be_read_are_left_out_and_counted(corpus, tokenizer, tmp_path, caplog):
    expected = made(corpus, tokenizer, tmp_path / "whole")[0]
    lines = corpus.read_text().splitlines(keepends=True)
    corpus.write_text("".join([*lines[:3], "no JSON\n", '{"text": 5}\n', *lines[3:]]))
    assert by_bulk(corpus, tmp_path).errors == 2
    assert made(tmp_path / "tokens", tokenizer, tmp_path / "one")[0] == expected
    assert "2 documents had no text" in caplog.text


def test_what_does_not_fit_is_refused(corpus, tokenizer, tmp_path, folder):
    by_bulk(corpus, tmp_path)
    tokens = tmp_path / "tokens"
    run_bulk("tokenize", corpus, tmp_path / "others", model=str(folder), workers=1)
    with pytest.raises(BadInput, match="tokenised with another tokenizer; name the one it was made with"):
        tokenise(Corpus(tmp_path / "others"), tokenizer, tmp_path / "out")
    for several in ([tokens, corpus], [tokens, tmp_path / "others"]):
        with pytest.raises(BadInput, match="are not of one kind: text, or tokens of one tokenizer"):
            tokenise(Corpus(several), tokenizer, tmp_path / "out")
    with pytest.raises(BadInput, match=r'has no column "text"; .* name the tokenizer, or give the text'):
        next(Corpus(tokens).documents())
    (tokens / "part-000001.parquet").unlink()
    with pytest.raises(BadInput, match="tokens holds 4 of 5 parts, since `clearhead bulk` has not ended; run it again"):
        tokenise(Corpus(tokens), tokenizer, tmp_path / "out")
