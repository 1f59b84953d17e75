"""From a click in the studio to the picture, for every view of a text: `python benchmarks/studio_views.py [VIEW…]`.

A text of 30, 128 and 512 tokens is typed and run with the built-in model; the time ends when the picture stands. A view
that takes fewer tokens says so, and that is timed too. Each figure is the median of three texts of the same length. The
last rows are an answer while a page of slow work computes, and the next one after it was closed. With all views the
figures are kept.
"""

import os
import statistics
import sys
import time
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import torch

import clearhead as ch
from browser.chromium import ARGUMENTS, chromium
from browser.running import running
from clearhead.inside.decoding import told_target
from clearhead.pipelines.generation import Generator
from clearhead.studio.app import create_app
from clearhead.studio.pages import ENTRIES
from record import record

LENGTHS = (30, 128, 512)
WORDS = ("the", "animal", "did", "not", "cross", "a", "street", "because", "it", "was", "too", "tired", "and", "wide")
TEXTS = 3
COMPARE = "/compare"
SENSES = "/look/senses"
DECODING = "/look/decoding"
SPARE = 8  # seconds in which the next process is ready


def text_of(tokens: int, turn: int, view: str = "") -> str:
    """A text of so many tokens, the two round it included; another for each turn, since pictures are cached."""
    text = " ".join(WORDS[(i + turn) % len(WORDS)] for i in range(tokens - 2))
    while view == DECODING and len(translator().ids([told_target(translator(), text)])[0]) > tokens:
        text = text.rpartition(" ")[0]  # whose tokenizer cuts words into more pieces
    return text


@cache
def translator() -> Generator:
    """What Decoding looks at."""
    return ch.load("builtin:translator").generator


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


def beside_slow_work(page: Page, address: str) -> tuple[float, float]:
    """Until an answer, while another page waits for a long explanation, and when it was closed."""
    waits: list[tuple[float, float]] = []
    asked = "() => { const s = performance.now(); return fetch('/api/use/fill?text=a+[MASK]').then(r => r.text())"
    asked += ".then(() => (performance.now() - s) / 1000) }"
    for turn in range(TEXTS):
        page.goto(address)
        time.sleep(SPARE)
        slow = page.context.new_page()
        slow.goto(f"{address}/look/why?{urlencode({'text': text_of(120, turn) + ' [MASK]', 'use': 'fill'})}")
        slow.get_by_role("button", name="Cancel").wait_for()
        beside = float(page.evaluate(asked))
        slow.close()
        waits.append((beside, float(page.evaluate(asked))))
    beside, after = zip(*waits, strict=True)
    return statistics.median(beside), statistics.median(after)


def cell(timed: list[tuple[float, str]]) -> str:
    """The median, and that the page refused so long a text."""
    refused = any(told for _, told in timed)
    return f"{'refused in ' if refused else ''}{statistics.median(took for took, _ in timed):.2f} s"


def title(view: str) -> str:
    """A view as the studio names it, with the most tokens that it takes."""
    if view == COMPARE:
        return "Compare: attention of two texts and the difference"
    if view == SENSES:
        return f"Senses, the word {', '.join(str(text_of(one, 0).split().count('animal')) for one in LENGTHS)} times"
    name, most = ENTRIES[view].to_dict()["title"], ENTRIES[view].tokens
    return name if most >= max(LENGTHS) else f"{name}, at most {most} tokens"


def main() -> None:
    """Print a row for each view."""
    views = [one.path for one in ENTRIES.values() if one.tokens or one.path == SENSES]
    chosen = sys.argv[1:] or [*views, COMPARE]
    rows: list[list[str]] = []
    loads = [os.getloadavg()[0]]
    with sync_playwright() as engine, running(create_app()) as address:
        browser = engine.chromium.launch(executable_path=chromium(engine), args=ARGUMENTS)
        for view in chosen:
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            warm = {"word": "animal", "texts": text_of(30, 5)} if view == SENSES else {"text": "it warms up"}
            page.goto(f"{address}{view}?{urlencode(warm)}")
            page.wait_for_function("() => !document.querySelector('[aria-busy]')", timeout=90_000)
            page.wait_for_timeout(1000)
            row = [cell([seconds(page, view, text_of(one, turn, view)) for turn in range(TEXTS)]) for one in LENGTHS]
            rows.append([title(view), *row])
            loads.append(os.getloadavg()[0])
            sys.stdout.write(f"| {' | '.join(rows[-1])} |\n")
            sys.stdout.flush()
            page.close()
        page = browser.new_context().new_page()  # which another page of the same context is closed beside
        for what, took in zip(
            ("while a Why computes", "after it was closed"), beside_slow_work(page, address), strict=True
        ):
            rows.append([f"an answer {what}", "", f"{took:.2f} s", ""])
            sys.stdout.write(f"| {' | '.join(rows[-1])} |\n")
        browser.close()
    if not sys.argv[1:]:
        load = f"load {min(loads):.0f} to {max(loads):.0f}"
        names = {"View": "{}", **{f"{one} tokens": "{}" for one in LENGTHS}}
        record("studio_views", names, rows, threads=torch.get_num_threads(), load=load)


if __name__ == "__main__":
    main()
