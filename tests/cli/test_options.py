"""What verbs share: texts from files and pipes, options by their old names, progress."""

import io
import json
import sys
import time

import pytest
import typer
from typer.main import get_command

from clearhead.cli import app, options
from clearhead.cli.options import RENAMED, Text, Texts, each, progress, read_texts
from pipelines.peers import peers


def test_files_that_cannot_be_read(run, tmp_path):
    folder = peers("BertForMaskedLM").folder
    broken = tmp_path / "broken.txt"
    broken.write_bytes(bytes(range(256)))
    assert "is no text: it holds bytes that no text has" in run("embed", "--in", broken, "-m", folder)[2]
    code, _, err = run("embed", "--in", tmp_path / "none.txt", "-m", folder)
    assert code == 2
    assert err == f"error: There is no file {tmp_path / 'none.txt'}; check the name.\n"
    for texts in ("text", "-"):
        assert "not both" in run("embed", texts, "--in", broken, "-m", folder)[2]
    assert "there is no file 'Ada lived.'; a text is an argument" in run("ask", "Who?", "--context", "Ada lived.")[2]


def test_a_line_is_what_an_editor_calls_one(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_bytes("\ufefffirst\u2028of two\r\nsecond\x0cof two\n".encode())
    found = list(read_texts(files=[str(file)]))
    assert [one.text for one in found] == ["first\u2028of two", "second\x0cof two"]
    assert [one.place for one in found] == [f"{file}:1", f"{file}:2"]


VERBS = [
    *(("classify",), ("tag",), ("fill",), ("embed",), ("summarise",), ("translate",), ("generate",), ("cluster",)),
    *(
        ("ask", "Who lived?"),
        ("ask",),
        ("search",),
        ("compare", "a text"),
        ("compare",),
        ("follows", "a text"),
        ("choose", "a text"),
    ),
    *(("tokenize",), ("look", "attention"), ("look", "why"), ("look", "senses", "bank")),
]


@pytest.mark.parametrize("verb", VERBS)
def test_an_argument_that_may_be_meant_as_a_file_is_no_text(run, folder, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "art.txt").write_text("Ada lived in London.")
    (tmp_path / "notes").mkdir()
    more = {"compare": ["another"], "choose": ["another"], "search": ["--in", "art.txt"]}.get(verb[0], [])
    more = more if verb != ("compare", "a text") else []
    for name, wrong in {
        "art.txt": "'art.txt' is a file; ",
        "notes": "'notes' is a folder; ",
        "nosuch.txt": "'nosuch.txt' looks like a file, and there is none of that name; ",
        "./nosuch": "'./nosuch' looks like a file",
    }.items():
        code, out, err = run(*verb, name, *more, "--model", folder)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {wrong}")
        assert err.endswith(", or put -- before it if these letters are the text\n")
        assert err.count("\n") == 1


def test_what_stands_after_two_dashes_is_text_whatever_it_looks_like(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "art.txt").write_text("Ada lived in London.")
    (row,) = run("embed", "--json", "-m", folder, "--", "art.txt")[1].splitlines()
    assert json.loads(row)["text"] == "art.txt"
    for text in ("See README.md for more.", "https://example.com/a.html", "a/b", "1.5", "Really?", "...", "x" * 5000):
        code, out, err = run("embed", text, "--json", "-m", folder)
        assert (code, err) == (0, "")
        assert json.loads(out)["text"] == text


def test_files_folders_tables_and_documents(run, folder, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("one\ntwo\n")
    (notes / "b.csv").write_text("text,label\nthree,x\n")
    rows = [json.loads(line) for line in run("embed", "--in", notes, "--json", "-m", folder)[1].splitlines()]
    assert [(row["source"], row["line"], row["text"]) for row in rows] == [
        (str(notes / "a.txt"), 1, "one"),
        (str(notes / "a.txt"), 2, "two"),
        (str(notes / "b.csv"), 2, "three"),
    ]
    call = ["embed", "--in", notes / "a.txt", notes / "b.csv", "--document", "--json", "-m", folder]
    rows = [json.loads(line) for line in run(*call)[1].splitlines()]
    assert [list(row) for row in rows] == [["source", "vector"]] * 2
    assert [row["source"] for row in rows] == [str(notes / "a.txt"), f"{notes / 'b.csv'}:2"]
    assert "--document is for files and stdin" in run("embed", "text", "--document", "-m", folder)[2]


def test_a_bad_file_among_others_is_left_out_and_named(run, folder, tmp_path):
    (tmp_path / "good.txt").write_text("one\n")
    (tmp_path / "bad.txt").write_bytes(bytes(range(256)))
    code, out, err = run("embed", "--in", tmp_path, "--json", "-m", folder)
    assert (code, out.count("\n")) == (0, 1)
    assert err == (
        f"note: left out: {tmp_path / 'bad.txt'} is no text: it holds bytes that no text has; convert it first\n"
    )


def test_results_come_while_others_are_still_to_be_read(monkeypatch):
    monkeypatch.setattr(options, "_FIRST_CHARACTERS", 20)
    pulled = []

    def endless():
        for number in range(1_000_000):
            pulled.append(number)
            yield Text("words", "-", number)

    texts = Texts(endless(), None)
    assert [one.line for one in texts.first(2)] == [0, 1]
    found = each("working", texts, lambda texts, progress: [text.upper() for text in texts])
    assert [(next(found)[0].line, next(found)[1]) for _ in range(2)] == [(0, "WORDS"), (2, "WORDS")]
    assert len(pulled) < 20


def test_only_blank_texts_are_refused_before_anything_is_computed(run, folder, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n\n")
    assert run("fill", "--in", tmp_path / "blank.txt", "-m", folder)[::2] == (
        2,
        "error: the text is empty; give some words\n",
    )


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


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.delenv("CLEARHEAD_QUIET", raising=False)
    monkeypatch.setattr(options, "_PLAIN_PATIENCE", 0.02)
    with progress("working", 3000) as advance:
        advance(1500)
        time.sleep(0.2)
    first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("working: 1,500 of 3,000 in 0 s, about 0 s left")
    monkeypatch.setenv("CLEARHEAD_QUIET", "1")
    with progress("working", 3000):
        time.sleep(0.1)
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


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32", "utf-8-sig"])
def test_other_encodings_are_read(run, folder, tmp_path, encoding):
    (tmp_path / "cafe.txt").write_bytes("café\nnaïve\n".encode(encoding))
    code, out, err = run("embed", "--in", tmp_path / "cafe.txt", "--model", folder, "--json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["café", "naïve"]
    guessed = f"note: {tmp_path / 'cafe.txt'} is not UTF-8 (line 1); what is not is read as Windows-1252\n"
    assert (code, err) == (0, guessed if encoding == "latin-1" else "")


@pytest.mark.parametrize("verb", [("embed",), ("fill",), ("summarise",), ("tokenize",), ("ask", "Who?")])
def test_bytes_through_a_pipe_that_are_no_text(run, folder, monkeypatch, verb):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\x01\x02"), encoding="latin-1"))
    wrong = "error: stdin is no text: it holds bytes that no text has; convert it first\n"
    assert run(*verb, "--model", folder) == (2, "", wrong)


def test_a_pipe_is_read_as_a_file_is_whatever_the_locale(run, folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfcaf\xc3\xa9\n"), encoding="latin-1"))
    (row,) = run("embed", "--model", folder, "--json")[1].splitlines()
    assert json.loads(row)["text"] == "café"
