"""What verbs share: texts from files and pipes, options by their old names, progress."""

import io
import json
import sys
import time

import pytest
import typer
from typer.main import get_command

from clearhead.cli import app, options
from clearhead.cli.options import RENAMED, progress, read_texts
from pipelines.peers import peers


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
