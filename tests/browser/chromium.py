"""Which Chromium opens the pages: the system's, or the one that playwright has fetched. `python chromium.py` asks."""

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Error, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = ["--no-sandbox"]  # in a container there is none, and our pages load nothing
NONE = (
    "no Chromium that starts: there is none on this machine, and playwright could not fetch one; "
    "install chromium, or run `playwright install --with-deps chromium` with a network"
)


def chromium(engine: Playwright) -> str | None:
    """The path of a browser that starts, if there is one."""
    for path in (*(shutil.which(name) for name in NAMES), engine.chromium.executable_path):
        if path is None or not Path(path).exists():
            continue
        try:
            engine.chromium.launch(executable_path=path, args=ARGUMENTS).close()
        except Error as error:
            sys.stderr.write(f"{path} does not start: {error.message.splitlines()[0]}\n")
        else:
            return path
    return None


def main() -> None:
    """Fetch a browser if there is none; exit 3 with a sentence where that fails."""
    with sync_playwright() as engine:
        found = chromium(engine)
        if found is None:
            subprocess.run(
                [sys.executable, "-m", "playwright", "install", "chromium"], capture_output=True, check=False
            )
            found = chromium(engine)
    sys.stderr.write(f"browser: {found or NONE}\n")
    sys.exit(0 if found else 3)


if __name__ == "__main__":
    main()
