"""Files of any size: read line by line, written while the vectors come."""

import os
import time

import numpy as np
import pytest
import typer

from clearhead.cli import options
from clearhead.cli.embed import VectorFile
from clearhead.cli.options import progress, read_texts
from clearhead.pipelines import runner as batches
from pipelines.peers import SENTENCES, peers


def test_vectors_are_written_as_they_come(tmp_path):
    parts = [np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32) for rows in (2, 0, 5)]
    with VectorFile(tmp_path / "some.npy") as file:
        for part in parts:
            file.add(part)
    assert (file.rows, file.width) == (7, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "some.npy"), np.concatenate(parts))
    with VectorFile(tmp_path / "none.npy") as file:
        pass
    assert np.load(tmp_path / "none.npy").shape == (0, 0)


@pytest.mark.parametrize("precision", ["float32", "int8", "binary"])
def test_a_file_in_parts_gives_what_it_gives_at_once(run, tmp_path, monkeypatch, precision):
    pair = peers("BertForMaskedLM")
    lines, out = tmp_path / "lines.txt", tmp_path / "out.npy"
    lines.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    monkeypatch.setattr(batches, "_CHUNK_CHARACTERS", 300)
    code, _, err = run("embed", "--in", lines, "--model", pair.folder, "--out", out, "--precision", precision)
    assert code == 0
    assert f"wrote {len(SENTENCES)} vectors" in err
    np.testing.assert_allclose(np.load(out), pair.ours.embed(SENTENCES, precision=precision), atol=1e-5)
    code, piped, _ = run("embed", "--model", pair.folder, stdin="\n".join(SENTENCES))
    assert piped.count("\n") == len(SENTENCES)


def test_files_that_cannot_be_read(run, tmp_path):
    folder = peers("BertForMaskedLM").folder
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text; convert it first" in run("embed", "--in", broken, "-m", folder)[2]
    code, _, err = run("embed", "--in", tmp_path / "none.txt", "-m", folder)
    assert code == 2
    assert err == f"error: there is no file {tmp_path / 'none.txt'}\n"
    for texts in ("text", "-"):
        assert "not both" in run("embed", texts, "--in", broken, "-m", folder)[2]


def test_a_line_is_what_an_editor_calls_one(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_bytes("\ufefffirst\u2028of two\r\nsecond\x0cof two\n".encode())
    expected = ["first\u2028of two", "second\x0cof two"]
    assert list(read_texts([], file)) == expected


def test_little_is_kept_of_the_products_of_many_texts_unless_the_user_says_otherwise(run, tmp_path, monkeypatch):
    file = tmp_path / "lines.txt"
    file.write_text("the bank\n")
    folder = peers("BertForMaskedLM").folder
    for name, little in (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"), ("LRU_CACHE_CAPACITY", "1")):
        monkeypatch.setenv(name, "7")
        run("embed", "--in", file, "-m", folder)
        assert os.environ[name] == "7"
        monkeypatch.delenv(name)
        run("embed", "the bank", "-m", folder)
        assert name not in os.environ
        run("embed", "--in", file, "-m", folder)
        assert os.environ[name] == little


def test_what_is_printed_beside_a_bar_stays_on_stdout(capsys, monkeypatch):
    monkeypatch.setattr(options, "_PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("working", 3) as advance:
        time.sleep(0.05)  # until the bar is there
        typer.echo("a result")
        advance(3)
    out, err = capsys.readouterr()
    assert out == "a result\n"
    assert "working" in err


def test_progress_says_nothing_within_a_second(capsys):
    with progress("working", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""
