"""A browser for all tests, and pages that must stay quiet: an empty console, and nothing asked of the outside."""

import pytest

pytest.importorskip("playwright.sync_api")

from playwright.sync_api import expect, sync_playwright

from browser.chromium import ARGUMENTS, NONE, chromium
from browser.pages import DEADLINE, PATIENCE, new_page, painted
from browser.running import running
from clearhead.studio.app import create_app
from studio.conftest import folders as folders
from studio.conftest import run_folder as run_folder


@pytest.fixture(scope="session")
def browser():
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as engine:
        path = chromium(engine)
        if path is None:
            pytest.fail(NONE)
        browser = engine.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open an address; afterwards the console must be empty, and only `home` may have been asked."""
    complaints, pages = [], []

    def visit(address, home, width=1280, scheme="light"):
        phone = {"has_touch": True} if width < 600 else {}
        page = new_page(browser, viewport={"width": width, "height": 900}, color_scheme=scheme, **phone)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith((home, "data:")) or complaints.append(request.url))
        page.goto(address)
        return page

    visit.complaints = complaints
    yield visit
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture
def opened(visit, tmp_path):
    """Open a view from its file."""

    def opened(view, width=1280, scheme="light"):
        page = visit(view.save(tmp_path / f"{view.title}.html").as_uri(), "file:", width, scheme)
        painted(page)
        return page

    return opened


@pytest.fixture(scope="session")
def studio(folders, run_folder):
    """The address of a running studio with small models."""
    with running(create_app(folders, [run_folder], deadline=DEADLINE)) as address:
        yield address


@pytest.fixture(scope="session")
def studio_with_skills(stand_in):
    """The address of a running studio with a model as the built-in one is."""
    with running(create_app([str(stand_in)], deadline=DEADLINE)) as address:
        yield address
