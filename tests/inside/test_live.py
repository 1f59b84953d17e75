"""A picture in a notebook that follows its text."""

import sys

import pytest

from clearhead.errors import NotFound
from clearhead.inside import live
from clearhead.inside.trace import trace
from inside.models import small


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
