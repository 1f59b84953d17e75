"""What holds for every view: one whole file that loads nothing, in which text stays text, the same bytes each time."""

import html
import json
import re
import sys
import tempfile
import webbrowser
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from clearhead.errors import BadInput, NotFound
from clearhead.inside import (
    bottleneck,
    by_hand,
    decoding,
    difference,
    heads_on_top,
    lecture_tables,
    live,
    one_block,
    position_tables,
    pretraining,
    senses_of,
    summed_input,
    through_layers,
    training_runs,
    whole_model,
    why,
)
from clearhead.inside.by_hand import THINKING_MACHINES, Example
from clearhead.inside.page import View, message_page
from clearhead.inside.trace import trace, trace_ids
from inside.models import small, telling
from inside.pages import NASTY, Page
from studio.runs import write_run

HOSTILE = "the bank </script><script>alert(1)</script> <!-- <img src=x onerror=alert(1)> bank"


def nasty_example():
    parts = (getattr(THINKING_MACHINES, name) for name in ("x", "query", "key", "value", "output", "key_width"))
    return Example(tuple(NASTY[:2]), *parts)


def run_named(text):
    with tempfile.TemporaryDirectory() as home:
        return training_runs([write_run(Path(home) / text.replace("/", "\\"))])


VIEWS = {
    "model": lambda text: whole_model(small(), text),
    "pretraining": lambda text: pretraining(small(), text, rolls=2),
    "heads": lambda text: heads_on_top(telling(), text),
    "block": lambda text: one_block(small(), text),
    "tables": lambda _: lecture_tables(),
    "bottleneck": lambda _: bottleneck("43 27", steps=10),
    "by hand": lambda _: by_hand(),
    "input": lambda text: summed_input(small(), text, "and more"),
    "positions": lambda _: position_tables(small(), length=12, width=8),
    "layers": lambda text: through_layers(small(), text),
    "senses": lambda text: senses_of(small(), "bank", {"a": [text], text: ["the bank"]}),
    "why": lambda text: why(small(head="classes", outputs=2, labels=("no", "yes")), text),
    "decoding": lambda text: decoding(small("gpt2", "causal_lm"), text, num_beams=2, max_new_tokens=4),
    "difference": lambda text: difference(small(), small(), text, f"{text} too"),
    "step": lambda text: trace(small(), text).step(1, 0, 0),
    "attention": lambda text: trace(small(), text).heads(),
    "runs": run_named,
    "message": lambda text: View("message", message_page(text), {"message": text}),
}
PLAIN = "the bank of the river, the bank"


@pytest.mark.parametrize("name", VIEWS)
def test_the_page_is_whole_and_asks_for_nothing(name):
    view = VIEWS[name](PLAIN)
    page = Page(view.html)
    for tag, attributes in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href", "style", "onload", "onclick"} & set(attributes)
    assert page.policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(
        r"https?://|@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(|import\(",
        view.html,
    )
    assert [tag for tag, _ in page.elements].count("h1") == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", VIEWS)
def test_the_page_shows_the_data_that_programs_get(name):
    view = VIEWS[name](PLAIN)
    assert json.loads(json.dumps(view.data)) == view.data
    assert dict(view.data).items() <= Page(view.html).facts.items()


@pytest.mark.parametrize("name", VIEWS)
def test_the_same_numbers_give_the_same_bytes(name):
    assert VIEWS[name](PLAIN).html == VIEWS[name](PLAIN).html


@pytest.mark.parametrize("name", VIEWS)
def test_hostile_text_is_text(name):
    plain, page = Page(VIEWS[name](PLAIN).html), Page(VIEWS[name](HOSTILE).html)
    assert [(tag, a) for tag, a in page.elements if tag != "meta"] == [
        (tag, a) for tag, a in plain.elements if tag != "meta"
    ]
    assert page.scripts["code"] == plain.scripts["code"]
    assert "alert(1)" not in page.scripts["code"] + page.style


def test_hostile_words_and_tokens_are_text():
    pages = [by_hand(nasty_example()), trace_ids(small().encoder, [5] * len(NASTY), tokens=NASTY).step(0, 1, 1)]
    for view, name in zip(pages, ("words", "tokens"), strict=True):
        page = Page(view.html)
        assert page.facts[name] == view.data[name]
        assert [tag for tag, _ in page.elements].count("script") == 2


def test_scripts_and_styles_are_short_files_and_all_are_used():
    home = files("clearhead.inside") / "pages"
    used = "".join(view(PLAIN).html for view in VIEWS.values())
    for folder in home.iterdir():
        for path in folder.iterdir():
            text = path.read_text(encoding="utf-8")
            assert "</script" not in text or path.name == "page.html", path
            assert len(text.splitlines()) <= 300, path
            assert text in used or path.name == "page.html", path


def test_every_page_can_be_used_by_keyboard_and_on_a_phone():
    for view in VIEWS.values():
        page = Page(view(PLAIN).html)
        assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.elements
        assert "prefers-color-scheme: dark" in page.style
        assert ":focus-visible" in page.style
        assert not any(a.get("tabindex", "0") != "0" for _, a in page.elements)


VIEW = View("attention", '<!doctype html>\n<p title="a">é & "ü"</p>\n')


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    with pytest.raises(BadInput, match=r"page\.html is there already; .* overwrite=True"):
        VIEW.save(target)
    assert VIEW.save(str(target), overwrite=True) == target
    assert target.read_bytes() == VIEW.html.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_says_what_it_shows():
    view = VIEWS["step"](PLAIN)
    named = view.captioned('a model · "<b>" · 2026-11-18')
    assert Page(named.html).text.count('a model · "<b>" · 2026-11-18') == 1
    assert named.html.replace("a model · &quot;&lt;b&gt;&quot; · 2026-11-18", "") == view.html


def test_a_failure_while_saving_keeps_the_old_file(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        View("broken", "\ud800").save(target, overwrite=True)
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


def picture(text):
    return trace(small(), text).heads()


def test_a_change_of_the_text_draws_anew():
    widget = live(picture, "the animal")
    assert widget.page == picture("the animal").html
    widget.text = "it was tired"
    assert widget.page == picture("it was tired").html


def test_what_is_wrong_is_said_and_the_picture_stays():
    widget = live(picture, "the animal")
    widget.text = "animal " * 2000
    assert "tokens" in widget.problem
    assert widget.page == picture("the animal").html
    widget.text = "the animal was"
    assert widget.problem == ""


def test_what_is_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(NotFound, match=r"needs anywidget; run: pip install 'clearhead\[notebook\]'"):
        live(picture, "the animal")
