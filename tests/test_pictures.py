"""Pictures of docs/ that are made from the code are as the code makes them now."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest
import typer

import pictures
import recording
from clearhead import demo
from clearhead.models import ALL_FAMILIES


def test_every_drawing_is_current():
    made = pictures.files()
    stale = [path.name for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert stale == [], "run python book/pictures.py"
    assert {path.name for path in pictures.DRAWN.iterdir()} == {path.name for path in made if path.suffix == ".svg"}


def test_every_drawing_is_svg_that_fetches_nothing():
    for path in [*pictures.DRAWN.glob("*.svg"), recording.TARGET]:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root[0].tag.endswith("title")
        assert "href" not in path.read_text(encoding="utf-8")


def test_every_family_is_drawn():
    drawn = pictures.families()
    assert {name for names, *_ in drawn.values() for name in names} == set(ALL_FAMILIES)
    text = (pictures.DRAWN / "modernbert.svg").read_text(encoding="utf-8")
    assert "× 22, 14 of them see 64 neighbours on either side" in text
    assert "× 12, 1 with weights of its own" in (pictures.DRAWN / "albert.svg").read_text(encoding="utf-8")


def test_rooms_are_those_of_the_document():
    assert list(pictures.rooms())[:3] == ["errors", "io", "nn"]
    assert pictures.imports("text") == {"errors", "io"}


def test_the_recording_is_of_the_demo_as_it_is():
    text = recording.TARGET.read_text(encoding="utf-8")
    shown = "".join(unescape(line) for line in re.findall(r"<text class=\"l\"[^>]*>([^<]*)</text>", text))
    for line, _ in demo.TOUR:
        assert re.sub(r"\s", "", f">>> {line}") in re.sub(r"\s", "", shown), "run python book/recording.py"


def test_a_recording_scrolls_when_the_screen_is_full():
    root = recording.svg([["first"], [">>> a < b", *map(str, range(recording.ROWS))], ["last"]])
    ElementTree.fromstring(root)
    assert "translateY(-0px)" in root
    assert f"translateY(-{4 * recording.STEP}px)" in root
    assert "&gt;&gt;&gt; a &lt; b" in root


def test_a_long_line_is_wrapped_where_the_screen_ends(monkeypatch):
    said = f"begin\n\n>>> x\n{'word ' * 40}\nThat took 3 s"
    monkeypatch.setattr(recording.demo, "main", lambda folder: typer.echo(said))
    first, second = recording.recorded()
    assert first == ["begin"]
    assert len(second) == 3
    assert max(map(len, second)) <= recording.COLUMNS


@pytest.mark.parametrize("name", ["pictures/package", "pictures/latency", "demo", "ladder"])
def test_drawings_are_shown_in_the_documents(name):
    pages = pictures.ROOT.joinpath("docs").rglob("*.md")
    assert any(f"{name}.svg)" in path.read_text(encoding="utf-8") for path in pages)
