"""A class that clicks everything at once: tabs closed, work cancelled, long texts everywhere, the server stopped."""

import signal
from contextlib import suppress

import pytest
from playwright.sync_api import Error

from browser.pages import new_page
from clearhead.studio.pages import ENTRIES
from studio.test_worker import command

pytestmark = pytest.mark.browser

LONG = "the animal was tired " * 127  # 510 tokens with the two round them
GERMAN = "der Hund schläft heute " * 127
SLOW = f"{'the+animal+was+too+wide+' * 20}[MASK]&use=fill"
VIEWS = [one for one in ENTRIES.values() if one.tokens]


@pytest.fixture(scope="module")
def studio_process():
    """`clearhead studio` as anybody starts it, and its address."""
    with command() as (process, port):
        yield process, f"http://127.0.0.1:{port}"


def answered(page, address):
    """Whether the next request is answered."""
    asked = "path => fetch(path).then(r => r.json()).then(found => Boolean(found.predictions))"
    return page.evaluate(asked, f"{address}/api/use/fill?text=a+[MASK]")


@pytest.fixture
def tab(browser, studio_process):
    page = new_page(browser)
    page.goto(studio_process[1])
    yield page
    page.close()


@pytest.mark.parametrize("entry", VIEWS, ids=lambda entry: entry.path)
def test_512_tokens_are_shown_or_refused_with_an_offer(tab, studio_process, entry):
    address = studio_process[1]
    text = GERMAN if entry.use == "translate" else LONG
    status, answer = tab.evaluate(
        "([path, text]) => fetch('/api' + path, { method: 'POST', body: JSON.stringify({ text }),"
        " headers: { 'Content-Type': 'application/json' } }).then(async r => [r.status, await r.json()])",
        [entry.path, text],
    )
    if entry.tokens >= 512:
        assert status == 200
    else:
        assert status == 400
        assert "tokens, this page shows at most" in answer["error"]
        assert 0 < len(answer["shorter"]["text"]) < len(text)
    assert answered(tab, address)


def test_tabs_are_closed_while_the_studio_computes(browser, tab, studio_process):
    address = studio_process[1]
    for turn in range(3):
        closed = new_page(browser)
        with suppress(Error):
            closed.goto(f"{address}/look/why?text={turn}+{SLOW}", wait_until="commit")
            closed.locator("studio-picture[aria-busy]").wait_for()
        closed.close()
        assert answered(tab, address)


def test_cancelled_work_leaves_the_way_free(tab, studio_process):
    address = studio_process[1]
    tab.goto(f"{address}/look/why?text={SLOW}")
    tab.get_by_role("button", name="Cancel").click()
    tab.locator(".status", has_text="Cancelled.").wait_for()
    tab.get_by_role("link", name="Attention", exact=True).click()
    tab.locator("studio-picture:not([aria-busy]) .tools").wait_for()
    assert answered(tab, address)


def test_a_page_says_that_the_studio_was_stopped(browser):
    with command() as (process, port):
        page = new_page(browser)
        page.goto(f"http://127.0.0.1:{port}/look/why?text={SLOW}")
        page.get_by_role("button", name="Cancel").wait_for()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        page.locator(".status.failed", has_text="The studio").wait_for()
        page.get_by_role("link", name="Attention", exact=True).click()
        page.locator(".status.failed", has_text="The studio does not answer; is it still running?").wait_for()
        page.close()
