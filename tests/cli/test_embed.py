"""embed, senses and vectors near; files of any size are written while the vectors come."""

import json
import os

import numpy as np
import pytest

from clearhead.cli.embed import VectorFile
from clearhead.pipelines import runner as batches
from conftest import SENTENCES
from pipelines.peers import SENTENCES as LONGER
from pipelines.peers import peers
from pipelines.writers import gpt_folder, translator


def rows(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join([*SENTENCES, SENTENCES[0]]) + "\n", encoding="utf-8")
    return path


def test_embed_for_people_programs_and_files(run, model, folder, tmp_path):
    texts = ["a mask", "the street"]
    code, out, _ = run("embed", *texts, "--model", folder)
    assert code == 0
    assert out.splitlines()[1].endswith("… (32)  the street")
    code, out, _ = run("embed", *texts, "--model", folder, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["text"] for row in rows] == texts
    np.testing.assert_allclose([row["vector"] for row in rows], model.embed(texts), atol=1e-6)
    lines = tmp_path / "texts.txt"
    lines.write_text("a mask\nthe street\n", encoding="utf-8")
    code, out, err = run("embed", "--in", lines, "--model", folder, "--out", tmp_path / "v.npy", "--layers", "-2,-1")
    assert (code, out) == (0, "")
    assert "wrote 2 vectors of width 32" in err
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), model.embed(texts, layers=[-2, -1]), atol=1e-6)


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
    lines.write_text("\n".join(LONGER) + "\n", encoding="utf-8")
    monkeypatch.setattr(batches, "_CHUNK_CHARACTERS", 300)
    code, _, err = run("embed", "--in", lines, "--model", pair.folder, "--out", out, "--precision", precision)
    assert code == 0
    assert f"wrote {len(LONGER)} vectors" in err
    np.testing.assert_allclose(np.load(out), pair.ours.embed(LONGER, precision=precision), atol=1e-5)
    code, piped, _ = run("embed", "--model", pair.folder, stdin="\n".join(LONGER))
    assert piped.count("\n") == len(LONGER)


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


@pytest.mark.parametrize(("text", "threads"), [("a mask", "1"), ("a mask " * 1000, None)])
def test_a_short_text_is_read_with_one_thread(run, folder, monkeypatch, text, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    run("embed", text, "-m", folder)
    assert os.environ.get("OMP_NUM_THREADS") == threads


def test_embed_smaller_vectors(run, folder, file):
    out = run("embed", "--in", file, "-m", folder, "--dimensions", 16, "--precision", "binary", "--json")[1]
    assert all(len(row["vector"]) == 2 and isinstance(row["vector"][0], int) for row in rows(out))
    assert "+" not in run("embed", "--in", file, "-m", folder, "--precision", "int8")[1].splitlines()[0]


def test_senses(run, folder, file):
    code, out, _ = run("senses", "bank", "--in", file, "--model", folder, "--json", "--layers=-2,-1")
    assert code == 0
    (found,) = rows(out)
    assert [one["text"] for one in found["occurrences"]] == ["bank", "bank"]
    assert np.array(found["cosines"]).shape == (2, 2)
    out = run("senses", "bank", "-m", folder, "--count", 2, stdin=SENTENCES[2])[1]
    assert out.count("\n") == 3
    assert out.splitlines()[-1].startswith("2 senses; the nearest two of different senses: ")


def test_senses_of_the_lectures_where_no_text_is_given(run, folder):
    for word, found in (("train", 6), ("bank", 10)):
        (one,) = rows(run("senses", word, "-m", folder, "--json", stdin="")[1])
        assert len(one["occurrences"]) == found
    out = run("senses", "bank", "-m", folder, "--threshold=-1", stdin="A bank. Two banks.")[1]
    assert out.splitlines()[-1].startswith("one sense, joined from a mean cosine of -1.000 on; its farthest two: ")
    assert run("senses", "bank", "-m", folder, stdin="A bank.")[1].endswith("one occurrence; two can be compared\n")
    assert run("senses", "zebra", "-m", folder, stdin="")[0] == 2


def test_word_vectors_are_not_looked_for_in_another_model(run, tmp_path):
    translator().save(tmp_path / "model")
    for other in (tmp_path / "model", gpt_folder()):
        code, _, err = run("vectors", "near", "bank", "-m", other)
        assert (code, err) == (2, f"error: {other} holds no word vectors; train some with: clearhead vectors train\n")
