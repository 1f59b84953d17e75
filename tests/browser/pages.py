"""Pages as a test has them: slow machines have time, and what is asked of a page is what it says now."""

from playwright.sync_api import Browser, Page

PATIENCE = 300_000  # milliseconds; what is to be there may be long in coming on a busy machine
DEADLINE = 600.0  # seconds for what a studio computes in a test
TOGETHER = 800  # milliseconds, after which another move is an entry of the history of its own


def new_page(browser: Browser, **options) -> Page:
    """Open a page that waits patiently."""
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE)
    return page


def drawn(page: Page) -> Page:
    """Wait until all that a page of the studio asks for is there, and was drawn for the size of the window."""
    page.locator("h1:visible").first.wait_for()
    page.wait_for_function("() => !document.querySelector('[aria-busy]')")
    painted(page)
    return page


def painted(page: Page) -> None:
    """Wait for two frames: what follows a change of size or theme is drawn in the first."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def here(page: Page) -> str:
    """The address, as the page itself has it: the browser tells it later."""
    return page.evaluate("location.href")
