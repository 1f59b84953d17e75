"""A real browser opens every view, changes an input, and sees what a person would see."""

import shutil

import pytest

from clearhead.inside import by_hand, position_tables, senses_of, summed_input, through_layers, why
from clearhead.inside.trace import trace
from inside.models import small

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.browser

TEXT = "The animal didn't cross the street because it was too tired <b>bold</b>"
LABELS = ("no", "yes")
VIEWS = {
    "by-hand": by_hand,
    "input": lambda: summed_input(small(), "Be alert!", "BERT will hurt!"),
    "positions": lambda: position_tables(small()),
    "layers": lambda: through_layers(small(), TEXT),
    "senses": lambda: senses_of(small(), "bank"),
    "why": lambda: why(small(head="classes", outputs=2, labels=LABELS), TEXT),
    "step": lambda: trace(small(), TEXT).step("animal", 1, 2),
    "attention": lambda: trace(small(), TEXT, "it was late").heads(),
}


@pytest.fixture(scope="module")
def browser():
    system = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=system, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open a view; afterwards the console must be empty and nothing asked for."""
    complaints, pages = [], []

    def opened(view, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
        page.goto(view.save(tmp_path / f"{view.title}.html").as_uri())
        page.wait_for_timeout(150)
        return page

    yield opened
    for page in pages:
        page.close()
    assert complaints == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", VIEWS)
def test_the_page_opens_and_fits(opened, name, width):
    page = opened(VIEWS[name](), width, "dark" if width == 390 else "light")
    assert page.locator("h1").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("b").count() == 0


def table(page, section, caption):
    """The numbers of a computed matrix, by its caption."""
    cells = page.locator(f"#{section} table", has=page.locator(f"caption:text-is('{caption}')")).first.locator("td")
    return [float(text.replace("−", "-")) for text in cells.all_inner_texts() if text]


def test_changing_a_number_computes_anew(opened):
    page = opened(by_hand())
    assert table(page, "steps", "softmax") == [0.881, 0.119]
    assert table(page, "steps", "score q · k") == [112, 96]
    page.locator("#width").fill("256")
    assert table(page, "steps", "softmax") == [0.731, 0.269]  # 7 and 6
    page.get_by_label("W^K, row 2, column 1").fill("8")
    assert table(page, "steps", "score q · k") == [112, 128]
    page.get_by_role("button", name="Back to the start").click()
    assert table(page, "steps", "score q · k") == [112, 96]
    page.get_by_text("Keys and values").click()
    assert table(page, "mapping", "Q Kᵀ V") == [0.7, 0, 0.7, 0.7, 0.7, 0]


@pytest.mark.parametrize("section", ["steps", "matrix", "heads", "basic", "mapping"])
def test_the_pages_numbers_are_pythons(opened, section):
    view = by_hand()
    page = opened(view)
    data, head = view.data, view.data["heads"][0]
    expected = {
        "steps": ("z, their sum", [head["z"][0]]),
        "matrix": ("Z", head["z"]),
        "heads": ("output", data["output"]),
        "basic": ("softmax(x xᵀ) x", data["basic"]["z"]),
        "mapping": ("Q Kᵀ", data["mapping"]["scores"]),
    }
    page.locator(f"[name=section][value={section}]").check(force=True)
    caption, values = expected[section]
    assert table(page, section, caption) == pytest.approx([x for row in values for x in row], abs=6e-4)


def test_a_slider_moves_through_the_layers(opened):
    view = through_layers(small(), TEXT)
    page = opened(view)
    page.locator("#layer").fill("2")
    said = page.locator(".said tr").nth(1).locator("td").first.inner_text()
    token, share = view.data["said"][2][1][0]
    assert token.removeprefix("##") in said
    assert f"{share:.2f}" in said


def test_heat_maps_are_read_with_the_arrow_keys(opened):
    view = senses_of(small(), "bank")
    page = opened(view)
    page.locator("#cosines canvas").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    shown = page.locator("#cosines .reading").inner_text()
    assert shown.endswith(f"{view.data['cosines'][-1][1][1]:.2f}")


def test_the_verdict_is_pythons(opened):
    view = why(small(head="classes", outputs=2, labels=LABELS), TEXT)
    page = opened(view)
    assert (view.data["faithful"] or "none of them") in page.locator("#verdict").inner_text()
    assert "no explanation" in page.locator("#note").inner_text()
    assert page.locator("#chart polyline").count() == 6


def test_a_token_is_followed(opened):
    view = trace(small(), TEXT).step("animal", 1, 2)
    page = opened(view)
    page.locator("#token").select_option("3")
    weights = [float(text) for text in page.locator(".steps tbody td:last-child").all_inner_texts()]
    assert weights == view.data["weights"][3]


def test_the_finder_lists_the_heads_that_link_two_tokens(opened):
    traced = trace(small(), TEXT)
    page = opened(traced.heads())
    source, target = traced.position("it"), traced.position("animal")
    page.locator("#find-from").select_option(str(source))
    page.locator("#find-to").select_option(str(target))
    page.locator("#found li").first.wait_for()
    best = traced.links("it", "animal")[0]
    first = page.locator("#found li").first.inner_text()
    assert f"layer {best.layer}, head {best.head}" in first
    page.locator("#found button").first.click()
    assert page.locator("#layer").input_value() == str(best.layer)


def test_a_view_runs_in_a_notebooks_frame(browser):
    page = browser.new_page()
    page.set_content(by_hand()._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("#width").fill("256")
    assert frame.locator("#steps .weights td").first.inner_text() == "0.731"
    page.close()


def test_the_theme_may_change_while_a_page_is_open(opened):
    page = opened(senses_of(small(), "bank"))
    before = page.evaluate("getComputedStyle(document.querySelector('#map circle')).fill")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(100)
    assert page.evaluate("getComputedStyle(document.querySelector('#map circle')).fill") != before
