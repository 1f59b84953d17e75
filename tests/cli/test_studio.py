"""`clearhead studio` starts, or says in one sentence why not."""

import sys


def test_a_port_that_does_not_exist_is_one_sentence_and_exit_2(run):
    code, out, err = run("studio", "--port", "99999", "--no-browser")
    assert (code, out) == (2, "")
    assert err.startswith("error: port 99999 cannot be used")
    assert err.count("\n") == 1


def test_what_is_not_installed_is_said(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "clearhead.studio.serve", raising=False)
    code, _, err = run("studio", "--no-browser")
    assert code == 2
    assert err == "error: the studio needs uvicorn; run: pip install 'clearhead[studio]'\n"


def test_a_model_that_is_not_there_is_told_at_the_start(run, tmp_path):
    code, out, err = run("studio", "--model", tmp_path / "none", "--no-browser")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: the folder {tmp_path / 'none'} is not there")
