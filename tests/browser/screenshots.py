"""The pictures of the studio in docs/, from one that is running: `python tests/browser/screenshots.py ADDRESS`.

Start it with a real model and some runs: `clearhead studio --model all-MiniLM-L6-v2 --runs ONE --runs TWO`.
"""

import sys
from io import BytesIO
from pathlib import Path

from chromium import ARGUMENTS, chromium
from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 150_000  # bytes of a picture that a page of documentation loads
SENTENCE = "The+animal+didn%27t+cross+the+street+because+it+was+too+tired"
# name -> page, width, height, theme
PICTURES = {
    "studio": (f"look/attention?text={SENTENCE}#layer=3&head=1&token=10", 1280, 1120, "light"),
    "studio-phone": ("look/senses?word=bank", 390, 1120, "dark"),
    "runs": ("look/runs", 1280, 1000, "light"),
}


def main(address: str) -> None:
    """Take every picture, with as many colours as fit."""
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium(engine), args=ARGUMENTS)
        for name, (path, width, height, theme) in PICTURES.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            page.goto(f"{address.rstrip('/')}/{path}")
            page.locator(".result:not([aria-busy]) .tools").wait_for()
            page.locator("#about", has_text="parameters").wait_for()
            page.wait_for_timeout(500)
            picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
            for colours in (256, 128, 64, 32):
                picture.quantize(colours).save(DOCS / f"{name}.png", optimize=True)
                if (DOCS / f"{name}.png").stat().st_size <= LARGEST:
                    break
            page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
