"""Film a walk through the studio, docs/studio.webp, with the built-in models: `python tests/browser/film.py`."""

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from chromium import ARGUMENTS, chromium
from pages import DEADLINE, drawn, new_page
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from running import running

from clearhead.studio.app import create_app

FILM = Path(__file__).parents[2] / "docs" / "studio.webp"
SIZE = (1280, 720)
SHOWN = (960, 540)
LARGEST = 1_500_000  # bytes, in a repository
ANIMAL = "The animal didn't cross the street because it was too tired"
Frame = tuple[Image.Image, int]  # and its milliseconds


def settled(page: Page) -> None:
    """Wait until every picture stands."""
    drawn(page).wait_for_timeout(350)


def taken(page: Page, milliseconds: int) -> Frame:
    """One frame."""
    return Image.open(BytesIO(page.screenshot())).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS), milliseconds


def walk(page: Page) -> Iterator[int]:
    """Go through the studio; each number is how long what is there now is shown."""

    def view(name: str) -> None:
        page.get_by_role("link", name=name, exact=True).click()
        settled(page)

    settled(page)
    yield 2000
    for name in ("block", "token"):
        page.mouse.click(640, 600)
        page.keyboard.press("ArrowUp" if name == "block" else "ArrowRight")
        settled(page)
        yield 900
    page.goto(page.url.split("/#")[0].split("/look")[0])
    settled(page)
    view("Attention")
    yield 1000
    page.get_by_label("Text", exact=True).fill(ANIMAL.replace("tired", "wide"))
    yield 700
    page.locator(".go").click()
    settled(page)
    yield 1800
    page.get_by_label("Text", exact=True).fill("A warm, funny and clever film.")
    page.locator(".go").click()
    settled(page)
    view("Why this answer")
    yield 1800
    page.mouse.wheel(0, 260)
    settled(page)
    yield 1800
    page.goto(page.url.split("/look")[0] + "/learn")
    page.wait_for_timeout(300)
    yield 1800
    page.get_by_role("link", name="Recurrent networks").click()
    settled(page)
    yield 2200
    page.mouse.wheel(0, 420)
    settled(page)
    yield 2000
    page.goto(page.url.split("/learn")[0] + "/learn/decoding")
    settled(page)
    yield 1600
    for _ in range(4):
        page.locator("studio-view #step").press("ArrowRight")
        settled(page)
        yield 450
    page.goto(page.url.split("/learn")[0] + "/learn/fine-tuning")
    settled(page)
    yield 1800
    page.goto(page.url.split("/learn")[0] + "/compare")
    settled(page)
    yield 2400


def main() -> None:
    """Film it, and refuse a film that is too large."""
    with sync_playwright() as engine, running(create_app(deadline=DEADLINE)) as address:
        browser = engine.chromium.launch(executable_path=chromium(engine), args=ARGUMENTS)
        page = new_page(browser, viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        page.goto(address)
        frames = [taken(page, shown) for shown in walk(page)]
        browser.close()
    images, durations = zip(*frames, strict=True)
    images[0].save(
        FILM, save_all=True, append_images=images[1:], duration=list(durations), loop=0, quality=62, method=6
    )
    size = FILM.stat().st_size
    sys.stderr.write(f"{FILM}: {len(frames)} pictures, {sum(durations) / 1000:.0f} s, {size:,} bytes\n")
    sys.exit(int(size > LARGEST))


if __name__ == "__main__":
    main()
