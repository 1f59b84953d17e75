"""A corpus becomes shards of token ids, whatever happens meanwhile."""

import json
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from clearhead.data.corpus import Corpus
from clearhead.data.shards import Shards, tokenise
from clearhead.errors import BadInput, NotFound
from clearhead.text import Tokenizer, train_tokenizer

from .corpora import small_shards, word_tokenizer, write_corpus


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def documents_of(shards: Shards) -> list[list[int]]:
    starts = shards.document_starts
    return [shards.gather(starts[i : i + 1], np.diff(starts[i : i + 2])).tolist() for i in range(len(starts) - 1)]


def test_the_shards_hold_the_documents_and_their_sentences(tmp_path: Path) -> None:
    shards, tokenizer, texts = small_shards(tmp_path)
    assert len(shards.manifest["shards"]) > 3
    assert documents_of(shards) == tokenizer.ids_batch(texts)
    assert np.load(tmp_path / "shards" / "00000.tokens.npy").dtype == np.uint16
    ends = shards.gather(shards.sentences[1:] - 1, np.ones(len(shards.sentences) - 1, dtype=np.int64))
    assert set(ends.tolist()) == {tokenizer.token_to_id(".")}
    assert len(ends) == sum(text.count(".") for text in texts)
    assert shards.tokens == sum(map(len, documents_of(shards)))


def test_runs_may_be_empty(tmp_path: Path) -> None:
    shards, _, _ = small_shards(tmp_path)
    starts = np.array([shards.tokens, 0, shards.tokens - 1, 5])
    whole = shards.gather(shards.document_starts[:-1], np.diff(shards.document_starts))
    assert shards.gather(starts, np.array([0, 2, 1, 0])).tolist() == [*whole[:2], whole[-1]]
    assert len(shards.gather(starts, np.zeros(4, dtype=np.int64))) == 0


def test_sentences_give_the_tokens_of_the_whole_text(tmp_path: Path) -> None:
    texts = ["Mr. Smith went. He came back!\nThen? “No.” He left.  Twice. 好。Ok."] * 3
    for kind, size in (("wordpiece", 80), ("bpe", 300)):
        tokenizer = train_tokenizer(texts=texts, kind=kind, vocabulary=size, min_frequency=1)
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        shards = tokenise(Corpus(tmp_path / "a.jsonl"), tokenizer, tmp_path / kind)
        assert documents_of(shards) == tokenizer.ids_batch(texts)


def test_parts_of_few_documents_are_documents(tmp_path: Path) -> None:
    tokenizer = word_tokenizer()
    for name, texts, parts in [
        ("one", ["W1 w2. " * 40], 20),
        ("bare", ["w1 w2 " * 300], 100),
        ("two", ["W1. " * 10, "W2. " * 30], 20),
        ("many", ["w1. w2."] * 4, 4),
    ]:
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        shards = tokenise(Corpus(tmp_path / f"{name}.jsonl"), tokenizer, tmp_path / name)
        cut = shards.in_parts()
        found = documents_of(cut)
        assert len(found) == parts
        assert [*chain(*found)] == [*chain(*tokenizer.ids_batch(texts))]
        assert len(documents_of(shards)) == len(texts)  # which are as they were
        assert set(shards.document_starts) <= set(cut.document_starts)
        held = cut.split("validation", 0.005)
        assert 0 < len(held) < parts == len(held) + len(cut.split("train", 0.005))


def test_documents_without_tokens_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": "w1."}\n{"text": " "}\n{"text": "w2"}\n{"text": ""}\n')
    shards = tokenise(Corpus(tmp_path / "a.jsonl"), word_tokenizer(), tmp_path / "shards", shard_tokens=1)
    assert len(documents_of(shards)) == 2
    (tmp_path / "b.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(BadInput, match="holds no words"):
        tokenise(Corpus(tmp_path / "b.jsonl"), word_tokenizer(), tmp_path / "none")
    with pytest.raises(NotFound, match="holds no shards"):
        Shards(tmp_path / "none")


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards, tokenizer, _ = small_shards(tmp_path)
    monkeypatch.setattr("clearhead.data.shards._CHARACTERS", 100)
    count = len(shards.manifest["shards"])
    encode = tokenizer.ids_batch
    for limit in (0, 5, 9, 14):
        calls: list[int] = []

        def dying(texts: list[str], calls: list[int] = calls, limit: int = limit) -> list[list[int]]:
            calls.append(1)
            if len(calls) > limit:
                raise KeyboardInterrupt
            return encode(texts)

        monkeypatch.setattr(tokenizer, "ids_batch", dying)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, tokenizer)
        monkeypatch.setattr(tokenizer, "ids_batch", encode)
    with pytest.raises(NotFound, match=r"did not end. Start it again, it will go on"):
        Shards(tmp_path / "again")
    (tmp_path / "again" / ".saving-x").mkdir()  # what a kill in the middle of writing leaves
    (tmp_path / "again" / ".saving-x" / "00001.tokens.npy").write_bytes(b"half")
    kept = (tmp_path / "again" / "00000.tokens.npy").stat().st_mtime_ns
    run(tmp_path, tokenizer)
    assert (tmp_path / "again" / "00000.tokens.npy").stat().st_mtime_ns == kept
    assert files_of(tmp_path / "again") == files_of(tmp_path / "shards")
    assert len(Shards(tmp_path / "again").manifest["shards"]) == count


def run(folder: Path, tokenizer: Tokenizer) -> Shards:
    return tokenise(Corpus(folder / "corpus.jsonl"), tokenizer, folder / "again", shard_tokens=300)


def change_a_word(folder: Path) -> None:
    """Of the same length, at the same time: only the content tells."""
    path = folder / "corpus.jsonl"
    time, text = path.stat().st_mtime_ns, path.read_text()
    path.write_text(text.replace("W5", "W6", 1))
    os.utime(path, ns=(time, time))
    assert path.read_text() != text


def lose_a_shard(folder: Path) -> None:
    (folder / "again" / "00001.tokens.npy").unlink()


@pytest.mark.parametrize(
    "change", [change_a_word, lose_a_shard, lambda folder: write_corpus(folder / "corpus.jsonl", 3)]
)
def test_what_did_not_change_is_reused_and_what_did_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    write_corpus(tmp_path / "corpus.jsonl")
    tokenizer = word_tokenizer()
    run(tmp_path, tokenizer)
    calls: list[int] = []
    encode = tokenizer.ids_batch
    monkeypatch.setattr(tokenizer, "ids_batch", lambda texts: calls.append(1) or encode(texts))
    os.utime(tmp_path / "corpus.jsonl", ns=(1, 1))
    run(tmp_path, tokenizer)
    assert not calls
    change(tmp_path)
    shards = run(tmp_path, tokenizer)
    assert calls
    names = {path.name for path in (tmp_path / "again").iterdir()}
    assert len(names) == 3 * len(shards.manifest["shards"]) + 1


def test_another_tokenizer_is_noticed(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.jsonl")
    first = run(tmp_path, word_tokenizer()).manifest
    other = train_tokenizer(texts=["w1 w2 w3."], vocabulary=40, min_frequency=1)
    assert run(tmp_path, other).manifest["made_of"]["tokenizer"] == other.digest != first["made_of"]["tokenizer"]


def test_progress_counts_bytes(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.jsonl")
    seen: list[int] = []
    corpus = Corpus(tmp_path / "corpus.jsonl")
    tokenise(corpus, word_tokenizer(), tmp_path / "shards", progress=seen.append)
    assert sum(seen) == corpus.size


def test_damage_is_named(tmp_path: Path) -> None:
    shards, _, _ = small_shards(tmp_path)
    (shards.folder / "00000.tokens.npy").write_bytes(b"x")
    with pytest.raises(BadInput, match=r"00000.tokens.npy is damaged"):
        Shards(shards.folder)
    np.save(shards.folder / "00000.tokens.npy", np.zeros(3, dtype=np.uint16))
    with pytest.raises(BadInput, match="do not fit their manifest"):
        Shards(shards.folder)
    (shards.folder / "manifest.json").write_text("{", "utf-8")
    with pytest.raises(BadInput, match="is not JSON"):
        Shards(shards.folder)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"complete": True},
        {"made_of": {}, "complete": True, "shards": 3},
        {"made_of": {}, "complete": True, "shards": [{}]},
        {"made_of": {}, "complete": True, "shards": [{"tokens": "many"}]},
        {"made_of": [], "complete": True, "shards": []},
    ],
)
def test_a_manifest_of_the_wrong_shape(tmp_path, content):
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match="delete the folder"):
        Shards(tmp_path)
