"""From a click in the studio to the picture, for every view of a text: `python benchmarks/studio_views.py`.

A text of 30, 128 and 512 tokens is typed and run with the built-in model; the time ends when the picture stands. A view
that takes fewer tokens says so, and that is timed too. Each figure is the median of three texts of the same length.
"""

import statistics
import sys
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


def text_of(tokens: int, turn: int) -> str:
    """A text of so many tokens, the two round it included; another for each turn, since pictures are cached."""
    return " ".join(WORDS[(i + turn) % len(WORDS)] for i in range(tokens - 2))


CLICK = """async () => {
  const picture = document.querySelector("studio-picture");
  const start = performance.now();
  document.querySelector(".go").click();
  while (picture.hasAttribute("aria-busy")) await new Promise(requestAnimationFrame);
  return (performance.now() - start) / 1000;
}"""


def seconds(page: Page, text: str) -> tuple[float, str]:
    """From the click to the picture, or to the sentence that refuses it, by the clock of the page."""
    page.locator("#field-text").fill(text)
    took = float(page.evaluate(CLICK))
    refused = page.locator("studio-picture .status.failed")
    return took, refused.first.inner_text() if refused.count() else ""


def main() -> None:
    """Print a row for each view."""
    views = [one for one in ENTRIES.values() if one.kind == "look" and any(f.name == "text" for f in one.fields)]
    with sync_playwright() as engine, running(create_app()) as address:
        browser = engine.chromium.launch(executable_path=chromium(engine), args=ARGUMENTS)
        for view in views:
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.goto(f"{address}{view.path}?{urlencode({'text': 'warm up'})}")
            page.locator("studio-picture:not([aria-busy])").wait_for(timeout=90_000)
            page.wait_for_timeout(1000)
            row = []
            for tokens in LENGTHS:
                timed = [seconds(page, text_of(tokens, turn)) for turn in range(TEXTS)]
                told = timed[0][1]
                row.append(
                    f"{statistics.median(took for took, _ in timed):.2f} s" + (f" (refused: {told})" if told else "")
                )
            sys.stdout.write(f"| {view.path} | {' | '.join(row)} |\n")
            sys.stdout.flush()
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
