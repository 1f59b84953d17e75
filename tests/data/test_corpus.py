import gzip
import json
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from clearhead.data.corpus import Corpus
from clearhead.errors import BadInput, NotFound

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}
TEXTS = ["First document.\nIts second line.", "Zweites Dokument, ä.", "三"]


def content(ending: str) -> bytes:
    if ending == ".txt":
        return ("\n" + "\n\n \n".join(TEXTS) + "\n\n").encode()
    if ending == ".jsonl":
        return "\n".join(json.dumps({"text": text}) for text in TEXTS).encode()
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1, 2, 3], "text": TEXTS}), stream)
    return stream.getvalue().to_pybytes()


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("ending", [".txt", ".jsonl", ".parquet"])
def test_every_kind_of_file_gives_the_same_documents(tmp_path: Path, ending: str, packing: str) -> None:
    path = tmp_path / f"a{ending}{packing}"
    path.write_bytes(PACK[packing](content(ending)))
    seen: list[int] = []
    corpus = Corpus(path)
    assert list(corpus.documents(seen.append)) == TEXTS
    assert seen[-1] == path.stat().st_size == corpus.size


def test_lines_are_documents_where_no_line_is_blank(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\none\ntwo\nthree\n\n", "utf-8")
    assert list(Corpus(tmp_path / "a.txt").documents()) == ["one", "two", "three"]


def test_several_frames_of_zstandard_are_one_file(tmp_path: Path) -> None:
    packed = b"".join(PACK[".zst"](part) for part in (b"one\n", b"two\n" * 200_000, b"three"))
    (tmp_path / "a.txt.zst").write_bytes(packed)
    found = list(Corpus(tmp_path / "a.txt.zst").documents())
    assert (found[0], found[-1], len(found)) == ("one", "three", 200_002)


def test_folders_and_patterns_are_sorted_and_nothing_is_read_twice(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("b.txt", "a.txt", "in/c.txt", "notes.md"):
        (tmp_path / name).write_text(name, "utf-8")
    assert list(Corpus(tmp_path).documents()) == ["a.txt", "b.txt", "in/c.txt"]
    named = Corpus([tmp_path / "b.txt", str(tmp_path / "**" / "*.txt")])
    assert list(named.documents()) == ["b.txt", "a.txt", "in/c.txt"]


def test_another_field(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "x"}\n\n{"body": "\\ud800y"}', "utf-8")
    assert list(Corpus(tmp_path / "a.jsonl", field="body").documents()) == ["x", "\ufffdy"]


@pytest.mark.parametrize(
    ("name", "stored", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"text": ', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", b'{"txt": "a"}', 'line 1 has no string under "text"'),
        ("a.txt", b"fine\ncaf\xe9\n", "a.txt, line 2 is not UTF-8 text"),
        ("a.txt.zst", PACK[".zst"](b"some text " * 100)[:-8], "cannot be read (it ends in the middle of a frame)"),
        ("a.txt.zst", b"not zstandard", "cannot be read"),
        ("a.txt.gz", gzip.compress(b"some text " * 100, mtime=0)[:30], "cannot be read"),
        ("a.parquet", b"not parquet", "a.parquet is not parquet"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, stored: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(stored)
    with pytest.raises(BadInput, match=re.escape(message)):
        list(Corpus(tmp_path / name).documents())


def test_bad_columns_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None], "n": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r'a.parquet, row 2 has no string under "text"'):
        list(Corpus(tmp_path / "a.parquet").documents())
    with pytest.raises(BadInput, match=r'has no column "body"; it has text, n'):
        list(Corpus(tmp_path / "a.parquet", field="body").documents())


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x", "utf-8")
    with pytest.raises(BadInput, match=r"a.csv ends in none of .txt, .jsonl, .parquet"):
        Corpus(tmp_path / "a.csv")
    with pytest.raises(NotFound, match="There is no file"):
        Corpus(tmp_path / "b.txt")
    with pytest.raises(NotFound, match="No file fits the pattern"):
        Corpus(f"{tmp_path}/*.txt")
    with pytest.raises(NotFound, match="holds no file that ends in"):
        Corpus(tmp_path)
    with pytest.raises(BadInput, match="at least one file"):
        Corpus([])


@pytest.mark.parametrize(("name", "package"), [("a.txt.zst", "zstandard"), ("a.parquet", "pyarrow")])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotFound, match=rf"Reading {name} needs {package}, .* pip install 'clearhead\[data\]'"):
        list(Corpus(tmp_path / name).documents())


def test_hub_data_sets_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, config: str | None, *, split: str, streaming: bool) -> Iterator[dict[str, str]]:
        if name != "owner/name":
            raise RuntimeError("no such data set\nwith a long explanation")
        asked.append((config, split, streaming))
        return iter([{"text": text} for text in TEXTS])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    for name in ("hub:owner/name", "hub:owner/name:en", "hub:owner/name:en:test"):
        assert list(Corpus(name).documents()) == TEXTS
    assert asked == [(None, "train", True), ("en", "train", True), ("en", "test", True)]
    with pytest.raises(NotFound, match=r"'hub:owner/other' cannot be had \(no such data set\); check"):
        list(Corpus("hub:owner/other").documents())
    with pytest.raises(BadInput, match='row 1 has no string under "body"'):
        list(Corpus("hub:owner/name", field="body").documents())
    with pytest.raises(BadInput, match="is not a data set of the hub; write hub:owner/name"):
        list(Corpus("hub:").documents())
