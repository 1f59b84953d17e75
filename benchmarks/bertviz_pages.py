"""Attention pages in one browser, ours beside bertviz: time to the first picture, memory, size of the file.

usage: python benchmarks/bertviz_pages.py [--tokens 30 128 512] [--limit 60]
needs: pip install bertviz playwright mpld3 nbclassic (the last two hold the libraries that bertviz loads from a CDN)
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bertviz
import torch
from playwright.sync_api import Browser, Error, Page, sync_playwright

import clearhead as ch
from real_weights import minilm

SENTENCE = "the animal didn't cross the street because it was too tired and the bank of the river was wide"
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
# some pixel of one of the two pictures has a colour
PAINTED = """() => [...document.querySelectorAll("#lines canvas, #matrix canvas")].some((canvas) =>
  canvas.clientWidth && canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean))"""
# what bertviz asks of the CDN, and where a package of the registry has it
LIBRARIES = {
    "require": ("nbclassic", "static/components/requirejs/require.js"),
    "d3": ("mpld3", "js/d3.v5.min.js"),
    "jquery": ("nbclassic", "static/components/jquery/jquery.min.js"),
}


def text_of(model: ch.Model, tokens: int) -> str:
    text = " ".join([SENTENCE] * (tokens // 15))
    while len(model.tokenizer.encode(text)) > tokens:
        text = text.rsplit(" ", 1)[0]
    return text


def ours(trace: Any) -> str:
    return trace.heads().html


def theirs(view: str) -> Callable[[Any], str]:
    def build(trace: Any) -> str:
        weights = [torch.stack([layer.attention(h) for h in range(layer.heads)])[None] for layer in trace.layers]
        return getattr(bertviz, view)(weights, trace.tokens, html_action="return").data

    return build


# how a page is built, and when its first picture is there
PAGES: dict[str, tuple[Callable[[Any], str], str]] = {
    "clearhead, all heads and layers": (ours, PAINTED),
    "bertviz head view": (theirs("head_view"), "() => document.querySelectorAll('svg line').length > 0"),
    "bertviz model view": (theirs("model_view"), "() => document.querySelectorAll('svg line').length > 0"),
}


def serve_libraries(page: Page) -> None:
    def answer(route: Any) -> None:
        name = re.search(r"/libs/(require|d3|jquery)", route.request.url)
        package, path = LIBRARIES[name.group(1)] if name else ("", "")
        home = find_spec(package) if package else None
        if home is None or not home.submodule_search_locations:
            route.abort()
        else:
            route.fulfill(path=Path(home.submodule_search_locations[0]) / path, content_type="text/javascript")

    page.route("https://cdnjs.cloudflare.com/**", answer)


def memory(browser: Browser) -> float:
    """Megabytes of the processes that draw pages, as the system counts them."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    pages = [process["id"] for process in found if process["type"] == "renderer"]
    held = 0
    for pid in pages:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        held += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return held / 1024


def measure(build: Callable[[Any], str], drawn: str, trace: Any, limit: float, chromium: str | None) -> str:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * limit)
        serve_libraries(page)
        file = Path(folder) / "page.html"
        start = time.perf_counter()
        file.write_text(build(trace), encoding="utf-8")
        built = time.perf_counter() - start
        size = f"{file.stat().st_size / 1e6:.2f} MB"
        try:
            page.goto(file.as_uri(), wait_until="commit")
            page.wait_for_function(drawn)
            page.evaluate(FRAMES)
            shown = time.perf_counter() - start
            return f"built {built:.2f} s, first picture {shown:.2f} s, memory {memory(browser):.0f} MB, file {size}"
        except Error as error:
            problem = error.message.splitlines()[0][:60]
            return f"built {built:.2f} s, no picture after {limit:.0f} s ({problem}), file {size}"
        finally:
            browser.close()


def offline(build: Callable[[Any], str], drawn: str, trace: Any, chromium: str | None) -> bool:
    """Whether the file shows its picture without a network."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(offline=True)
        page = context.new_page()
        file = Path(folder) / "page.html"
        file.write_text(build(trace), encoding="utf-8")
        page.goto(file.as_uri())
        try:
            page.wait_for_function(drawn, timeout=5000)
            return True
        except Error:
            return False
        finally:
            browser.close()


def studio_clicks(folder: Path, text: str, chromium: str | None) -> list[float]:
    """Seconds from the click to the picture in the studio, for texts that it has not seen."""
    command = [sys.executable, "-m", "clearhead", "studio", "-m", str(folder), "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        address = re.search(r"http://\S+?/", run.stdout.readline())
        assert address is not None
        with sync_playwright() as engine:
            browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(address.group() + "look/attention")
            page.locator("#about", has_text="parameters").wait_for()
            times = []
            for word in ("one", "two", "three", "four", "five"):
                page.locator("#field-text").fill(f"{text.rsplit(' ', 1)[0]} {word}")
                start = time.perf_counter()
                page.locator(".go").click()
                page.frame_locator("iframe").locator(".tokens.to li", has_text=word).wait_for()
                page.locator(".result:not([aria-busy])").wait_for()
                page.evaluate(FRAMES)
                times.append(time.perf_counter() - start)
            browser.close()
        run.terminate()
    return times


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--tokens", type=int, nargs="+", default=[30, 128, 512])
    asked.add_argument("--limit", type=float, default=60)
    asked.add_argument("--chromium", default=shutil.which("chromium"), help="the browser; else playwright's own")
    given = asked.parse_args()
    torch.set_num_threads(1)  # on a busy machine two threads wait for each other
    folder = minilm()
    model = ch.load(folder)
    for tokens in given.tokens:
        trace = ch.trace(model, text_of(model, tokens))
        for name, (build, drawn) in PAGES.items():
            print(f"{tokens} tokens, {name}: {measure(build, drawn, trace, given.limit, given.chromium)}", flush=True)
    trace = ch.trace(model, text_of(model, 30))
    for name, (build, drawn) in PAGES.items():
        works = offline(build, drawn, trace, given.chromium)
        print(f"{name}, without a network: {'shows its picture' if works else 'shows nothing'}", flush=True)
    times = studio_clicks(folder, text_of(model, 30), given.chromium)
    print(f"studio, 30 tokens, click to picture: {', '.join(f'{one:.2f}' for one in times)} s")


if __name__ == "__main__":
    main()
