"""Every picture is one command: it writes a page, says so, or gives its data as JSON."""

import json

import pytest

from pipelines.writers import TEXTS, gpt_folder, recurrent_folder, translator
from studio.runs import write_run

TEXT = "the animal was tired"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["by-hand"], "heads"),
        (["positions", "--length", "8"], "tables"),
        (["positions", "-m", "{folder}"], "tables"),
        (["input", "Be alert!", "BERT will hurt!", "-m", "{folder}"], "vectors"),
        (["layers", TEXT, "-m", "{folder}"], "said"),
        (["senses", "bank", "-m", "{folder}"], "cosines"),
        (["senses", "river", "the river", "a river", "-m", "{folder}"], "cosines"),
        (["why", "the [MASK] was tired", "-m", "{folder}"], "methods"),
        (["step", "the animal", "--token", "1", "--layer", "2", "--head", "3", "-m", "{folder}"], "weights"),
    ],
)
def test_each_picture_is_one_command(run, folder, tmp_path, arguments, key):
    given = [argument.format(folder=folder) for argument in arguments]
    page = tmp_path / "page.html"
    code, out, _ = run("look", *given, "--out", page)
    assert code == 0
    assert out.startswith(f"wrote {page}")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    data = json.loads(run("look", *given, "--out", page, "--overwrite", "--json")[1])
    assert data["file"] == str(page)
    assert key in data


def test_the_bottleneck_is_a_picture(run, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run("look", "bottleneck", "43 27", "--out", page)
    assert code == 0
    assert out.startswith(f"wrote {page}: GRU: ")
    code, _, error = run("look", "bottleneck", "12", "--out", page, "--overwrite")
    assert code == 2
    assert "'12' is no number from 21 to 99" in error


def test_runs_are_a_picture(run, tmp_path):
    folder = write_run(tmp_path / "model")
    code, out, _ = run("look", "runs", folder, folder, "--out", tmp_path / "runs.html", "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["runs"]] == ["model", "model"]


def test_a_page_is_named_after_its_picture(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("look", "by-hand")[1] == "wrote by-hand.html; open it in a browser\n"
    assert run("look", "by-hand")[1] == "wrote by-hand-2.html; open it in a browser\n"
    assert (tmp_path / "by-hand.html").read_bytes() == (tmp_path / "by-hand-2.html").read_bytes()


def test_texts_come_from_a_file(run, folder, tmp_path):
    lines = tmp_path / "texts.txt"
    lines.write_text("the bank\na bank\n", encoding="utf-8")
    out = run("look", "senses", "bank", "--in", lines, "-m", folder, "--out", tmp_path / "s.html", "--json")[1]
    assert [one["text"] for one in json.loads(out)["occurrences"]] == ["the bank", "a bank"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["step", TEXT, "--token", "street", "-m", "{folder}"], "the token 'street' is not there"),
        (["step", TEXT, "--token", "99", "-m", "{folder}"], "token 99 does not exist"),
        (["senses", "spring", "-m", "{folder}"], "no example texts for 'spring'"),
        (["why", TEXT, "--use", "classify", "-m", "{folder}"], "cannot classify or compare"),
        (["positions", "--length", "1"], "length=1 positions"),
        (["runs", "{folder}"], "there is no metrics.jsonl in"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, folder, arguments, message):
    code, out, err = run("look", *[argument.format(folder=folder) for argument in arguments])
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("kind", "picture"),
    [
        *[("transformer", picture) for picture in ("attention", "step", "input", "positions")],
        *[("t5", picture) for picture in ("attention", "step", "input")],
    ],
)
def test_a_translator_shows_its_encoder(run, tmp_path, kind, picture):
    translator(kind).save(tmp_path / "model")
    text = {"positions": [], "step": [TEXT, "--token", "0"]}.get(picture, [TEXT])
    page = tmp_path / "page.html"
    code, out, err = run("look", picture, *text, "-m", tmp_path / "model", "--out", page, "--json")
    assert (code, err) == (0, "")
    if picture != "positions":
        assert "<s>" not in json.loads(out)["tokens"]


@pytest.mark.parametrize(
    ("kind", "picture", "message"),
    [
        ("transformer", "layers", "see how it writes: look decoding"),
        ("transformer", "senses", "see how it writes: look decoding"),
        ("transformer", "why", "how one writes is shown by: look decoding"),
        ("t5", "layers", "see how it writes: look decoding"),
        ("t5", "senses", "see how it writes: look decoding"),
        ("t5", "positions", "has no vectors of positions"),
        ("seq2seq-lstm-additive", "why", "how one writes is shown by: look decoding"),
        ("rnnlm-lstm", "why", "has no answer to explain"),
        ("word2vec", "why", "has no answer to explain"),
        ("gpt2", "why", "has no answer to explain"),
    ],
)
def test_what_a_model_that_writes_cannot_show_is_one_sentence(run, tmp_path, kind, picture, message):
    if kind == "gpt2":
        folder = gpt_folder()
    elif kind in ("rnnlm-lstm", "word2vec"):
        folder = recurrent_folder(kind, tmp_path / "model")
    else:
        folder = tmp_path / "model"
        translator(kind).save(folder)
    text = {"positions": [], "senses": ["bank"], "step": [TEXT, "--token", "0"]}.get(picture, [TEXT])
    code, out, err = run("look", picture, *text, "-m", folder, "--out", tmp_path / "page.html")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_look_attention(run, folder, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run("look", "attention", "the street", "--model", folder, "--out", page, "--json")
    assert code == 0
    assert json.loads(out)["layers"] == 3
    assert "the" in json.loads(out)["tokens"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_look_decoding(run, tmp_path):
    page, folder = tmp_path / "page.html", tmp_path / "model"
    translator().save(folder)
    code, out, _ = run(
        "look", "decoding", TEXTS[0], "--num-beams", 2, "--max-new-tokens", 5, "-m", folder, "--out", page
    )
    assert code == 0
    assert out.startswith(f"wrote {page}")
    again = ["look", "decoding", TEXTS[0], "--max-new-tokens", 5, "-m", folder, "--out", page, "--overwrite", "--json"]
    data = json.loads(run(*again)[1])
    assert data["nodes"][0]["candidates"]
