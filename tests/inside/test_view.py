"""A view goes whole into a file, into a browser, or into a notebook."""

import html
import sys
import webbrowser
from pathlib import Path
from types import SimpleNamespace

import pytest

from clearhead.inside.page import View

VIEW = View("attention", '<!doctype html>\n<p title="a">é & "ü"</p>\n')


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    assert VIEW.save(str(target)) == target
    assert target.read_bytes() == VIEW.html.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_failure_while_saving_keeps_the_old_file(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        View("broken", "\ud800").save(target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_show_opens_a_file_in_the_browser(monkeypatch, caplog):
    opened = []
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or False)
    VIEW.show()
    path = Path(opened[0].removeprefix("file://"))
    assert path.name == "attention.html"
    assert path.read_text(encoding="utf-8") == VIEW.html
    assert f"no browser could be opened; the page is at {path}" in caplog.text
    path.unlink()
    path.parent.rmdir()


def test_show_in_a_notebook_displays_below_the_cell(monkeypatch):
    shown = []
    notebook = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=1), display=SimpleNamespace(display=shown.append)
    )
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    VIEW.show()
    assert shown == [VIEW]


def test_in_a_notebook_the_page_lives_in_a_frame_of_its_own():
    frame = VIEW._repr_html_()
    assert 'sandbox="allow-scripts"' in frame
    source = frame.split('srcdoc="')[1].split('"')[0]
    assert html.unescape(source) == VIEW.html
    assert repr(VIEW) == "View(title='attention')"
