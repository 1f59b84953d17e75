"""What people see on a terminal: bars, marks in the text; plain lines for everyone else."""

import json
import sys

import pytest

from clearhead.cli import render
from clearhead.cli.render import Mark, aligned, as_json_line, bar, difference, in_colour, in_context, marked
from pipelines.peers import LONG, SENTENCES, TAGS, peers


@pytest.fixture
def terminal(monkeypatch):
    """Colours are on, as on a terminal, and written to what the tests read."""
    monkeypatch.setattr(render, "in_colour", lambda: True)
    monkeypatch.setattr("clearhead.cli.understand.in_colour", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")


def test_bars_grow_by_eighths():
    assert bar(0, 2) == "  "
    assert bar(1 / 16, 2) == "▏ "
    assert bar(0.5, 2) == "█ "
    assert bar(0.75, 2) == "█▌"
    assert bar(1, 2) == bar(1.5, 2) == "██"


def test_marks_keep_every_character():
    text = "Ada lived in London."
    line = marked(text, [Mark(13, 19, "LOC"), Mark(0, 3, "PER"), Mark(1, 5, "PER")])
    assert line.plain == "Ada PER lived in London LOC."
    assert {str(span.style) for span in line.spans} == {
        "bold reverse cyan",
        "cyan",
        "bold reverse magenta",
        "magenta",
    }
    assert marked("a\x1b[31mb\x9b", []).plain == "a\ufffd[31mb\ufffd"


def test_an_answer_is_shown_in_its_place():
    text = "one\ntwo three four five"
    assert in_context(text, Mark(8, 13), width=4).plain == "… two three fou …"
    assert in_context(text, Mark(0, 3), width=100).plain == "one two three four five"
    line = in_context(text, Mark(8, 13), width=4)
    assert [line.plain[span.start : span.end] for span in line.spans] == ["three"]


def test_what_has_been_filled_in_is_found():
    assert difference("Wear a [MASK]!", "Wear a mask!") == Mark(7, 11)
    assert difference("same", "same") == Mark(4, 4)


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    assert not in_colour()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert in_colour()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not in_colour()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not in_colour()


def test_every_verb_on_a_terminal(run, terminal, tmp_path):
    file = tmp_path / "context.txt"
    file.write_text(LONG, encoding="utf-8")
    folder = peers("BertForQuestionAnswering", seed=3).folder
    code, out, _ = run("ask", "Who lived?", "--context", file, "-m", folder, "--threshold", "inf")
    assert code == 0
    assert "\x1b[" in out
    assert len(out.splitlines()) >= 2
    labels = peers("BertForSequenceClassification", ("no", "yes")).folder
    calls = [
        ("fill", "Wear a [MASK]!", "-m", peers("BertForMaskedLM").folder),
        ("tag", SENTENCES[2], "-m", peers("BertForTokenClassification", TAGS).folder),
        ("classify", SENTENCES[0], "-m", labels),
        ("compare", *SENTENCES[:2], "-m", labels),
        ("follows", *SENTENCES[:2], "-m", peers("BertForNextSentencePrediction").folder),
        ("choose", SENTENCES[0], "a mask", "the river", "-m", peers("BertForMultipleChoice").folder),
    ]
    for call in calls:
        code, out, _ = run(*call)
        assert code == 0
        assert "\x1b[" in out
    speech = run("tag", "The bank", "-m", peers("BertForTokenClassification", ("DET", "NOUN")).folder)[1]
    assert "\x1b[1;7;" in speech.splitlines()[0]  # every word is marked
    plain = run("classify", SENTENCES[0], "-m", labels, "--json")[1]
    assert "\x1b[" not in plain


def test_tables_are_aligned_in_colour_or_not(monkeypatch, capsys):
    head, rows = ("class", "f1"), [("yes", "100.00"), ("n\x1bo", "1.00")]
    plain = list(aligned(head, rows))
    assert plain == ["", "class      f1", "yes    100.00", "n\x1bo      1.00"]
    monkeypatch.setattr(render, "in_colour", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    render.print_rows([({}, aligned(head, rows))], as_json=False)
    out = capsys.readouterr().out
    assert "\x1b[1m" in out  # the head is bold
    assert "n\ufffdo" in out  # and what a terminal would obey is not


def test_a_number_that_is_not_finite_is_null():
    line = as_json_line({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": (-float("inf"), "NaN", None, True)}})
    assert json.loads(line) == {"a": None, "b": [None, 1.5], "c": {"d": [None, "NaN", None, True]}}
    assert as_json_line({"ü": 0.5}) == '{"ü": 0.5}'
