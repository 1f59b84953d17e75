"""Every verb as a user types it: text, --json, and one sentence with exit code 2 on bad input."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.main import get_command

from clearhead.cli import app
from clearhead.cli.options import RENAMED
from inside.models import telling
from pipelines.peers import peers


def test_tokenize_a_pair(run, folder):
    code, out, _ = run("tokenize", "Be alert!", "BERT will hurt!", "--model", folder)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows[0][:2] == ["1", "1"]
    assert rows[0][-1] == "[CLS]"
    assert rows[-1][1] == "2"
    code, out, _ = run("tokenize", "Be alert!", "BERT will hurt!", "--model", folder, "--json")
    shown = json.loads(out)
    assert set(shown) == {"tokens", "ids", "segments", "offsets", "words"}
    assert len(shown["ids"]) == len(rows)


def test_tokenize_tells_capitals_where_the_model_is_told(run, tmp_path):
    telling().save(tmp_path)
    words = ("The bank", "BERT", "--model", tmp_path)
    code, out, _ = run("tokenize", *words)
    assert code == 0
    assert out.splitlines()[0].split() == ["position", "sentence", "capitals", "id", "from–to", "token"]
    rows = [line.split() for line in out.splitlines()[1:]]
    shown = json.loads(run("tokenize", *words, "--json")[1])
    assert [row[2] for row in rows] == shown["capitals"]
    assert [int(row[1]) - 1 for row in rows] == shown["segments"]
    kinds = dict(zip(shown["tokens"], shown["capitals"], strict=True))
    assert [kinds[token] for token in ("[CLS]", "the", "bank", "bert")] == ["none", "some", "none", "all"]
    assert shown["segments"][0] == 0
    assert shown["segments"][-1] == 1


def test_export_says_that_transformers_reads_no_capitals(tmp_path):
    telling().save(tmp_path / "names")
    words = ["export", str(tmp_path / "out"), "--model", str(tmp_path / "names")]
    done = subprocess.run([sys.executable, "-m", "clearhead", *words], capture_output=True, text=True, check=True)
    assert done.stderr.count("transformers does not read the table for capitals") == 1
    assert done.stderr.count("\n") == 1
    assert done.stdout.startswith("wrote Model(modernbert")


def test_tokenize_lines_from_stdin(run, folder):
    code, out, _ = run("tokenize", "--model", folder, "--json", stdin="a mask\nthe street\n")
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 2


def test_tokenize_with_a_vocabulary_alone(run, folder):
    for file in ("vocab.txt", "tokenizer.json"):
        code, out, _ = run("tokenize", "the street", "--model", folder / file, "--json")
        assert code == 0
        assert json.loads(out)["tokens"][1] == "the"


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


def test_look_attention(run, folder, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run("look", "attention", "the street", "--model", folder, "--out", page, "--json")
    assert code == 0
    assert json.loads(out)["layers"] == 3
    assert "the" in json.loads(out)["tokens"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_info(run, folder):
    code, out, _ = run("info", folder)
    assert code == 0
    assert "family               bert" in out
    facts = json.loads(run("info", folder, "--json")[1])
    assert facts["heads"] == ["masked_lm", "pooled", "next_sentence"]
    assert facts["config"]["hidden_size"] == 32


def test_train_a_tokenizer(run, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the street is wide and the animal is tired\n" * 5, encoding="utf-8")
    code, out, _ = run("tokenizer", "train", corpus, "--out", tmp_path / "new", "--vocabulary", 60, "--json")
    assert code == 0
    assert json.loads(out)["kind"] == "wordpiece"
    assert run("tokenize", "the animal", "--model", tmp_path / "new")[0] == 0


def test_convert(run, folder, tmp_path):
    import shutil

    import torch
    from safetensors.torch import load_file

    old = tmp_path / "old"
    shutil.copytree(folder, old)
    torch.save(load_file(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    code, _, err = run("info", old)
    assert code == 2
    assert f"clearhead convert {old}" in err
    code, out, _ = run("convert", old)
    assert (code, out.strip()) == (0, f"wrote {old / 'model.safetensors'}")
    assert run("info", old)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "./nowhere"], "nowhere is not there"),
        (["embed", "text", "--in", "file", "--model", "{folder}"], "give texts or --in FILE, not both"),
        (["embed", "--in", "./nothing.txt", "--model", "{folder}"], "there is no file nothing.txt"),
        (["embed", "text", "--model", "{folder}", "--layers", "last"], "'last' is not a list of numbers"),
        (["embed", "text", "--model", "{folder}", "--layers", "9"], "layer 9 is not there"),
        (["embed", "text", "--model", "{folder}", "--pooling", "median"], "pooling='median' is not known"),
        (["tokenizer", "train", "./nothing.txt", "--out", "x"], "nothing.txt"),
        (["convert", "./nowhere"], "nowhere"),
        (["look", "attention", "{long}", "--model", "{folder}"], "the model has 64 positions"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, folder, arguments, message):
    filled = [argument.format(folder=folder, long="street " * 90) for argument in arguments]
    code, out, err = run(*filled)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_unknown_verbs_and_options_exit_2(run):
    assert run("transmogrify")[0] == 2
    assert run("info", "x", "--loud")[0] == 2


def test_the_old_name_of_an_option_is_read_for_one_more_release(run, tmp_path):
    folder = peers("BertForMaskedLM").folder
    call = ["fill", "a [MASK]", "--model", folder]
    code, out, err = run(*call, "--top-k", 2)
    assert (code, err, out.count("\n")) == (0, "", 2)
    warning = "warning: --top is now called --top-k; the old name goes with the next release\n"
    assert run(*call, "--top", 2) == run(*call, "--top=2") == (0, out, warning)
    assert "--top " not in run("fill", "--help")[1]
    # a text is no option, and a verb without the new one has none by the old name
    assert run("classify", "--model", folder, "--", "--top")[2].startswith("error: this model cannot classify")
    assert run("info", folder, "--top", 2)[0] == 2


def test_every_old_name_has_a_verb_that_reads_it():
    commands = get_command(app).commands
    verbs = [one for name in commands for one in getattr(commands[name], "commands", {"": commands[name]}).values()]
    known = {option for one in verbs for parameter in one.params for option in parameter.opts}
    assert set(RENAMED.values()) <= known
    assert not set(RENAMED) & known


def test_bytes_that_are_no_text(run, folder, tmp_path):
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    code, _, err = run("embed", "--in", tmp_path / "latin", "--model", folder)
    assert code == 2
    assert "latin is not UTF-8 text; convert it first" in err


@pytest.mark.parametrize("verb", [("embed",), ("classify",), ("summarise",), ("tokenize",), ("ask", "Who?")])
def test_bytes_through_a_pipe_that_are_no_text(run, folder, monkeypatch, verb):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="latin-1"))
    assert run(*verb, "--model", folder) == (2, "", "error: stdin is not UTF-8 text; convert it first\n")


def test_a_pipe_is_read_as_a_file_is_whatever_the_locale(run, folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfcaf\xc3\xa9\n"), encoding="latin-1"))
    (row,) = run("embed", "--model", folder, "--json")[1].splitlines()
    assert json.loads(row)["text"] == "café"


def test_what_cannot_be_written_is_one_line(run, folder, tmp_path):
    code, _, err = run("embed", "a text", "--out", tmp_path, "--model", folder)
    assert (code, err) == (2, f"error: {tmp_path} is no plain file; give another name to write to\n")
    (tmp_path / "file").touch()
    code, _, err = run("embed", "a text", "--out", tmp_path / "file" / "x.npy", "--model", folder)
    assert (code, err.count("\n")) == (2, 1)
    # neither a folder below a file, nor, as root too finds, one in /proc, names what was to be written on the way
    for out in (tmp_path / "file" / "below" / "x.html", "/proc/x.html"):
        code, _, err = run("look", "by-hand", "--out", out)
        assert (code, err.count("\n")) == (2, 1)
        assert ".saving-" not in err
        assert "cannot be written to" in err


def test_help_teaches(run):
    code, out, _ = run("--help")
    assert code == 0
    for verb in ("tokenize", "embed", "info", "convert", "look", "tokenizer"):
        assert verb in out
    assert "Example" in run("embed", "--help")[1]
    assert run("--version")[1].startswith("clearhead ")


def test_help_does_not_wait_for_torch():
    script = "import sys; sys.argv = ['clearhead', '--help']\ntry:\n import clearhead.cli as c; c.main()\n"
    script += "except SystemExit: print('torch' in sys.modules, 'huggingface_hub' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "False False"


def test_a_reader_that_leaves_early_is_no_error(folder):
    command = f"{sys.executable} -m clearhead tokenize --model {folder} | head -n 1"
    lines = "the street is wide\n" * 3000
    done = subprocess.run(["bash", "-c", command], input=lines, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
