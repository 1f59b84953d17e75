"""Every verb as a user types it: text, --json, and one sentence with exit code 2 on bad input."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "./nowhere"], "nowhere is not there"),
        (["embed", "text", "--in", "file", "--model", "{folder}"], "give texts or --in FILE, not both"),
        (["embed", "--in", "./nothing.txt", "--model", "{folder}"], "There is no file nothing.txt"),
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
