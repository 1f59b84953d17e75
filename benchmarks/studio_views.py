"""From a click in the studio to the picture, for every view of a text: `python benchmarks/studio_views.py [VIEW…]`.

A text of 30, 128 and 512 tokens is typed and run with the built-in model; the time ends when the picture stands. A view
that takes fewer tokens says so, and that is timed too. Each figure is the median of three texts of the same length. The
last row is the next answer after a page of slow work was closed.
"""

import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser.chromium import ARGUMENTS, chromium
from browser.running import running
from clearhead.studio.app import create_app
from clearhead.studio.pages import ENTRIES

LENGTHS = (30, 128, 512)
WORDS = ("the", "animal", "did", "not", "cross", "a", "street", "because", "it", "was", "too", "tired", "and", "wide")
TEXTS = 3
COMPARE = "/compare"
SENSES = "/look/senses"
SPARE = 8  # seconds in which the next process is ready


def text_of(tokens: int, turn: int) -> str:
    """A text of so many tokens, the two round it included; another for each turn, since pictures are cached."""
    return " ".join(WORDS[(i + turn) % len(WORDS)] for i in range(tokens - 2))


CLICK = """async () => {
  const pictures = [...document.querySelectorAll("studio-picture")];
  const start = performance.now();
  document.querySelector(".go").click();
  while (pictures.some((one) => one.hasAttribute("aria-busy"))) await new Promise(requestAnimationFrame);
  return (performance.now() - start) / 1000;
}"""


def seconds(page: Page, view: str, text: str) -> tuple[float, str]:
    """From the click to the picture, or to the sentence that refuses it, by the clock of the page."""
    if view == COMPARE:
        page.locator("#text").fill(text)
        page.locator("#text_b").fill(text.replace("tired", "wide"))
    else:
        page.locator("#field-texts" if view == SENSES else "#field-text").fill(text)
    took = float(page.evaluate(CLICK))
    refused = page.locator("studio-picture .status.failed span")
    return took, refused.first.inner_text() if refused.count() else ""


def after_closing(page: Page, address: str) -> float:
    """Until the next answer, when a page was closed while it waited for a long explanation."""
    waits = []
    for turn in range(TEXTS):
        page.goto(address)
        time.sleep(SPARE)
        slow = page.context.new_page()
        slow.goto(f"{address}/look/why?{urlencode({'text': text_of(120, turn) + ' [MASK]', 'use': 'fill'})}")
        slow.get_by_role("button", name="Cancel").wait_for()
        slow.close()
        asked = "() => { const s = performance.now(); return fetch('/api/use/fill?text=a+[MASK]').then(r => r.text())"
        waits.append(float(page.evaluate(f"{asked}.then(() => (performance.now() - s) / 1000) }}")))
    return statistics.median(waits)


def main() -> None:
    """Print a row for each view."""
    views = [one.path for one in ENTRIES.values() if one.tokens or one.path == SENSES]
    chosen = sys.argv[1:] or [*views, COMPARE]
    with sync_playwright() as engine, running(create_app()) as address:
        browser = engine.chromium.launch(executable_path=chromium(engine), args=ARGUMENTS)
        for view in chosen:
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            warm = {"word": "animal", "texts": text_of(30, 5)} if view == SENSES else {"text": "it warms up"}
            page.goto(f"{address}{view}?{urlencode(warm)}")
            page.wait_for_function("() => !document.querySelector('[aria-busy]')", timeout=90_000)
            page.wait_for_timeout(1000)
            row = []
            for tokens in LENGTHS:
                timed = [seconds(page, view, text_of(tokens, turn)) for turn in range(TEXTS)]
                told = timed[0][1]
                row.append(
                    f"{statistics.median(took for took, _ in timed):.2f} s" + (f" (refused: {told})" if told else "")
                )
            sys.stdout.write(f"| {view} | {' | '.join(row)} |\n")
            sys.stdout.flush()
            page.close()
        page = browser.new_page()
        sys.stdout.write(f"next answer after a closed page: {after_closing(page, address):.2f} s\n")
        browser.close()


if __name__ == "__main__":
    main()
