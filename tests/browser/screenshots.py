"""Take the pictures in docs/ anew, of the built-in model: `python tests/browser/screenshots.py RUN…`.

RUN is the folder of a training run; without one, the picture of runs stays as it is.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

from chromium import ARGUMENTS, chromium
from pages import DEADLINE, drawn, new_page
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from running import running

import clearhead as ch
from clearhead import inside
from clearhead.inside.page import View
from clearhead.studio.app import create_app
from clearhead.studio.examples import EXAMPLES

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 280_000  # bytes of a picture that a page of documentation loads
ANIMAL = EXAMPLES["/look/step"][0]["values"]["text"]
REVIEW = "The film was not good, but I loved every minute of it."


def linked(model: ch.Model) -> str:
    """The address of the head that links the two words most, with the links found."""
    traced = ch.trace(model, ANIMAL)
    it, animal, best = traced.position("it"), traced.position("animal"), traced.links("it", "animal")[0]
    return f"layer={best.layer}&head={best.head}&token={it}&from={it}&to={animal}"


def views(model: ch.Model) -> Iterator[tuple[str, View, str, int]]:
    """Pages of their own: the picture's name, the view, what is chosen in it, and how much of its height is shown."""
    yield "attention", ch.trace(model, ANIMAL).heads(), linked(model), 1130
    yield "by-hand", inside.by_hand(), "", 860
    yield "senses", inside.senses_of(model, "bank"), "", 1040
    yield "why", inside.why(model, REVIEW), "", 910


def pages(model: ch.Model, runs: Sequence[Path]) -> Iterator[tuple[str, str, int, int, str]]:
    """Pages of the studio: the picture's name, the address, width, height and theme."""
    yield "studio", f"look/attention?{urlencode({'text': ANIMAL})}#{linked(model)}", 1280, 900, "light"
    yield "learn", "learn/heads", 1280, 720, "dark"
    yield "compare", "compare", 1280, 900, "light"
    yield "studio-phone", "learn/words", 390, 1120, "dark"
    if runs:
        yield "runs", "look/runs", 1280, 1100, "light"


def keep(page: Page, name: str) -> None:
    """Write what the page shows, with fewer colours where that is too much."""
    page.wait_for_timeout(500)
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    picture.save(DOCS / f"{name}.png", optimize=True)
    if (DOCS / f"{name}.png").stat().st_size > LARGEST:
        picture.quantize(256).save(DOCS / f"{name}.png", optimize=True)
    page.close()


def take(browser: Browser, runs: Sequence[Path]) -> None:
    """Take every picture."""
    model = ch.load()
    with tempfile.TemporaryDirectory() as folder:
        for name, view, chosen, height in views(model):
            page = new_page(browser, viewport={"width": 1280, "height": height})
            page.goto(f"{view.save(Path(folder) / f'{name}.html').as_uri()}#{chosen}")
            keep(page, name)
        with running(create_app([], runs, deadline=DEADLINE)) as address:
            for name, path, width, height, theme in pages(model, runs):
                page = new_page(browser, viewport={"width": width, "height": height}, color_scheme=theme)
                page.goto(f"{address}/{path}")
                keep(drawn(page), name)


if __name__ == "__main__":
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium(engine), args=ARGUMENTS)
        take(browser, [Path(folder) for folder in sys.argv[1:]])
        browser.close()
